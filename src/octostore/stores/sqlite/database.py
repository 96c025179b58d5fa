"""Statements on a SQLite connection, which run immediately."""

import os
import re
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import apsw
import msgspec

from octostore.stores.named_sql import load_queries
from octostore.stores.rows import COLUMNS, Row

VALUES_AT_ONCE = (1, 8, 64)
"""Placeholder counts of statements that take any number of values; unused placeholders stay NULL."""
MOST_VALUES = VALUES_AT_ONCE[-1]
ROWS_AT_ONCE = (16, 4)
"""How many rows one statement writes; the remaining rows are written one by one."""
_ANY = re.compile(r"= ANY\(%\(\w+\)s\)")
_NAMED = re.compile(r"%\((\w+)\)s")
_ONE_ROW = re.compile(r"VALUES (\(%s(?:, %s)*\))")


def _places(columns: Sequence[str]) -> str:
    return ", ".join("%s" for _ in columns)


SQL = load_queries(
    os.path.join(os.path.dirname(__file__), "queries.sql"),
    lambda columns: f"VALUES ({_places(columns)})",
    schema="main",
    request_places=_places(COLUMNS["request"]),
    renewal_sets=", ".join(f"{column} = ?{number}" for number, column in enumerate(COLUMNS["renewal"][1:], 2)),
)
ROW_BY_ROW = {"append_events", "append_documents"}
"""Short rows: several per statement gain nothing."""


@cache
def takes_rows(query: str) -> bool:
    return query not in ROW_BY_ROW and _ONE_ROW.search(SQL[query]) is not None


@cache
def takes_values(query: str) -> bool:
    return _ANY.search(SQL[query]) is not None


@cache
def compiled(query: str, size: int = 1) -> str:
    """With placeholders for `size` values or rows. Few sizes, because each is a separate statement to SQLite."""
    text = _ANY.sub(f"IN ({', '.join('?' * size)})", SQL[query])
    text = _ONE_ROW.sub(lambda found: f"VALUES {', '.join([found[1]] * size)}", text)
    return _NAMED.sub(r":\1", text).replace("%s", "?")


class Found(msgspec.Struct):
    rows: Sequence[Row]


class SqliteDatabase:
    def __init__(self, connection: apsw.Connection, now: int = 0) -> None:
        self._execute = connection.execute
        self._now = now

    def query(self, query: str, **values: Any) -> Found:
        if takes_values(query):
            (several,) = values.values()
            return Found(self._fetch_any(query, tuple(several)))
        values["now"] = self._now
        return Found(self._execute(compiled(query), values).fetchall())

    def _fetch_any(self, query: str, values: Row) -> list[Row]:
        if len(values) == 1:
            return self._execute(compiled(query), values).fetchall()
        found: list[Row] = []
        for first in range(0, len(values), MOST_VALUES):
            part = values[first : first + MOST_VALUES]
            size = next(size for size in VALUES_AT_ONCE if size >= len(part))
            found += self._execute(compiled(query, size), part + (None,) * (size - len(part)))
        return found

    def query_each(self, query: str, rows: Sequence[Row]) -> Found:
        text = compiled(query)
        if ":now" in text:
            rows = [(*row, self._now) for row in rows]
        found: list[Row] = []
        for row in rows:
            found += self._execute(text, row)
        return Found(found)

    def write(self, query: str, rows: Sequence[Row]) -> None:
        first = 0
        if takes_rows(query):
            for size in ROWS_AT_ONCE:
                while len(rows) - first >= size:
                    several = rows[first : first + size]
                    self._execute(compiled(query, size), tuple(chain.from_iterable(several)))
                    first += size
        text = compiled(query)
        for row in rows[first:] if first else rows:
            self._execute(text, row)

    def run(self) -> None:
        """Nothing to wait for."""
