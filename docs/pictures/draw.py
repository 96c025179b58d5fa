"""Draw the documentation's pictures from the rules and from what a store in memory did: `make pictures`."""

from pathlib import Path

from docs.pictures.commit import commit
from docs.pictures.handover import handover
from docs.pictures.layers import layers
from docs.pictures.retries import retries
from docs.pictures.sessions import session_life
from docs.pictures.tasks import task_life

HERE = Path(__file__).resolve().parent
PICTURES = {
    "sessions": session_life,
    "tasks": task_life,
    "retries": retries,
    "hand-over": handover,
    "layers": layers,
    "group-commit": commit,
}


def drawn() -> dict[Path, str]:
    return {HERE / f"{name}.svg": draw().svg() for name, draw in PICTURES.items()}


if __name__ == "__main__":
    for path, svg in drawn().items():
        path.write_text(svg, encoding="utf-8")
