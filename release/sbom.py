"""Write the bill of materials of a release: what the package and the extras of users install, from the lock file."""

import subprocess
import sys
import tomllib
from pathlib import Path

from octostore._version import __version__

ROOT = Path(__file__).parents[1]
NOT_FOR_USERS = {"bench", "dev", "docs", "release"}


def user_extras() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sorted(project["optional-dependencies"].keys() - NOT_FOR_USERS)


def write() -> Path:
    path = ROOT / "dist" / f"octostore-{__version__}.cdx.json"
    path.parent.mkdir(exist_ok=True)
    options = ["--quiet", "--locked", "--no-dev", "--format", "cyclonedx1.5", "--output-file", str(path)]
    chosen = [word for extra in user_extras() for word in ("--extra", extra)]
    subprocess.run(
        [sys.executable, "-m", "uv", "export", *options, *chosen], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )
    return path


if __name__ == "__main__":
    print(write().relative_to(ROOT))
