"""SQL lives in files: each statement has a name and a purpose, and may include other statements by `{name}`."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import get_args

from octostore.core.beats import BEATS_PER_TTL
from octostore.core.health import TAKEN_BACK_MS
from octostore.core.limits import CLAIMS_PER_ROW, SWEEP_LIMIT
from octostore.core.model import HowEnded
from octostore.stores.rows import COLUMNS

SHARED = os.path.join(os.path.dirname(__file__), "queries.sql")
LIMITS = {
    "beats_per_ttl": f"{BEATS_PER_TTL}",
    "lately_ms": f"{TAKEN_BACK_MS}",
    "sweep_limit": f"{SWEEP_LIMIT}",
    "ends": ", ".join(f"'{how}'" for how in get_args(HowEnded)),
    "ends_limit": f"{CLAIMS_PER_ROW + 1}",
}


class Queries(Mapping[str, str]):
    """Statements by name, assembled on first use: a process that only reads needs few of them."""

    def __init__(self, raw: dict[str, str]) -> None:
        self._raw = raw
        self._texts = dict(LIMITS)

    def __getitem__(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = self._raw[name].format_map(self)
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)


def load_queries(path: str, values: Callable[[Sequence[str]], str], **names: str) -> Queries:
    """The statements in a database's own file and those all databases share, by name.

    `values` renders the placeholders for rows with these columns; statements may also use `names`.
    """
    for table, columns in COLUMNS.items():
        names[f"{table}_columns"] = ", ".join(columns)
        names[f"{table}_values"] = values(columns)
        # All columns but the key.
        names[f"{table}_changes"] = ", ".join(f"{column} = excluded.{column}" for column in columns[1:])
    return Queries(_read(SHARED) | _read(path) | names)


def _read(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        _, *statements = f"\n{file.read()}".split("\n-- name: ")
    raw = {}
    for statement in statements:
        name, *lines = statement.splitlines()
        raw[name] = "\n".join(line for line in lines if line and not line.startswith("--"))
    return raw
