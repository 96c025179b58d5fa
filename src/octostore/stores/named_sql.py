"""SQL lives in files: each statement has a name, a line that says what it is for, and may use others by `{name}`."""

import os
from collections.abc import Callable, Sequence

from octostore.core.health import LATE_SHARE, TAKEN_BACK_MS
from octostore.core.limits import SWEEP_LIMIT
from octostore.stores.rows import COLUMNS

SHARED = os.path.join(os.path.dirname(__file__), "queries.sql")
LIMITS = {"late_share": f"{LATE_SHARE}", "lately_ms": f"{TAKEN_BACK_MS}", "sweep_limit": f"{SWEEP_LIMIT}"}


class _Texts(dict[str, str]):
    """Each is put together when it is asked for: those of one file use those of another."""

    def __missing__(self, name: str) -> str:
        self[name] = self.raw[name].format_map(self)
        return self[name]

    def __init__(self, raw: dict[str, str], names: dict[str, str]) -> None:
        super().__init__(names)
        self.raw = raw


def load_queries(path: str, values: Callable[[Sequence[str]], str], **names: str) -> dict[str, str]:
    """The statements of a database's own file, and those that all share, by name.

    `values` is how it takes rows with these columns; `names` may be used in statements, too.
    """
    raw = _read(SHARED) | _read(path)
    for table, columns in COLUMNS.items():
        names[f"{table}_columns"] = ", ".join(columns)
        names[f"{table}_values"] = values(columns)
        # All but the first, by which a row is known.
        names[f"{table}_changes"] = ", ".join(f"{column} = excluded.{column}" for column in columns[1:])
    texts = _Texts(raw, LIMITS | names)
    return {name: texts[name] for name in [*raw, *names]}


def _read(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        _, *statements = f"\n{file.read()}".split("\n-- name: ")
    raw = {}
    for statement in statements:
        name, *lines = statement.splitlines()
        raw[name] = "\n".join(line for line in lines if line and not line.startswith("--"))
    return raw
