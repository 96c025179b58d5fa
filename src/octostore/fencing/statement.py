"""The SQL of a fenced update: text and parameters, run by whoever has a connection."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from octostore.core.errors import InvalidInput
from octostore.fencing.errors import MissingRow, StaleToken, check_token

ParamStyle = Literal["qmark", "named", "format", "pyformat", "numeric_dollar"]
"""How a driver writes parameters: `?`, `:p1`, `%s`, `%(p1)s` (as PEP 249 names them), or `$1`."""

_PLACEHOLDERS: dict[ParamStyle, str] = {
    "qmark": "?",
    "named": ":p{n}",
    "format": "%s",
    "pyformat": "%(p{n})s",
    "numeric_dollar": "${n}",
}
_WORD = re.compile(r"\w+")


class Statement(NamedTuple):
    sql: str
    parameters: list[object] | dict[str, object]


@dataclass(frozen=True)
class FencedUpdate:
    """A guarded write, ready to run.

    Run `write`. If it returns rows, they were written. If not, nothing was: run `look`, and `refusal` of its rows is
    the exception that says why.
    """

    table: str
    key: dict[str, object]
    token: int
    once: bool
    write: Statement
    look: Statement

    def refusal(self, found: Sequence[Any]) -> StaleToken | MissingRow:
        """Tell stale from missing by what `look` found, now that `write` has written nothing.

        The row may have changed between the two. That is harmless, as the write is over and refused; it can only make
        the reason that of a moment later: a row deleted since is missing, and the fence of one written again is higher.
        A row that `look` finds open to this token came since, or the database hides it from writes: missing, too.
        """
        current = _only_column(found[0]) if found else None
        if current is not None and (current > self.token or (self.once and current == self.token)):
            return StaleToken(self.key, self.token, current)
        return MissingRow(self.table, self.key)


def build_fenced_update(
    table: str,
    *,
    key: Mapping[str, object],
    values: Mapping[str, object] | None = None,
    token: int,
    fence: str = "fence",
    once: bool = False,
    paramstyle: ParamStyle,
) -> FencedUpdate:
    """The statements that `fenced_update` runs, for drivers it does not know. Its arguments mean the same there.

    Raises `InvalidInput` for a name that is not made of letters, digits and `_` alone, for an empty `key` or None in
    it, and for a `fence` that is among `key` or `values`.
    """
    values = values or {}
    _check(key, values, fence)
    check_token(token)
    return FencedUpdate(
        table=table,
        key=dict(key),
        token=token,
        once=once,
        write=_write(table, key, values, token, fence, once=once, parameters=_Parameters(paramstyle)),
        look=_look(table, key, fence, _Parameters(paramstyle)),
    )


class _Parameters:
    """Hands out a placeholder for each value. Values never become text of the statement."""

    def __init__(self, style: ParamStyle) -> None:
        if style not in _PLACEHOLDERS:
            raise InvalidInput("paramstyle", f"is {style!r}; it must be one of {', '.join(get_args(ParamStyle))}")
        self._style = style
        self._values: list[object] = []

    def add(self, value: object) -> str:
        self._values.append(value)
        return _PLACEHOLDERS[self._style].format(n=len(self._values))

    def statement(self, sql: str) -> Statement:
        if self._style in {"named", "pyformat"}:
            return Statement(sql, {f"p{n}": value for n, value in enumerate(self._values, 1)})
        return Statement(sql, self._values)


def _write(
    table: str,
    key: Mapping[str, object],
    values: Mapping[str, object],
    token: int,
    fence: str,
    *,
    once: bool,
    parameters: _Parameters,
) -> Statement:
    changes = ", ".join(
        f"{_quoted(name)} = {parameters.add(value)}" for name, value in [*values.items(), (fence, token)]
    )
    rows = _rows(key, parameters)
    fence_column, comparison = _column(fence), "<" if once else "<="
    # One statement decides and writes. RETURNING, because apsw counts rows per connection, where another thread's write
    # may be counted by the time we ask.
    return parameters.statement(
        f"UPDATE {_table(table)} AS guarded SET {changes} WHERE {rows} "  # noqa: S608  # names are checked and quoted
        f"AND ({fence_column} IS NULL OR {fence_column} {comparison} {parameters.add(token)}) RETURNING 1 AS written"
    )


def _look(table: str, key: Mapping[str, object], fence: str, parameters: _Parameters) -> Statement:
    rows = _rows(key, parameters)
    return parameters.statement(f"SELECT {_column(fence)} FROM {_table(table)} AS guarded WHERE {rows}")  # noqa: S608


def _rows(key: Mapping[str, object], parameters: _Parameters) -> str:
    return " AND ".join(f"{_column(name)} = {parameters.add(value)}" for name, value in key.items())


def _table(name: str) -> str:
    schema, dot, table = name.rpartition(".") if isinstance(name, str) else ("", "", name)
    return (_quoted(schema) if dot else "") + dot + _quoted(table)


def _column(name: str) -> str:
    # Never alone: SQLite takes a quoted name that is no column for a text, so that a misspelt one matches every row.
    return f"guarded.{_quoted(name)}"


def _quoted(name: str) -> str:
    if not isinstance(name, str) or not _WORD.fullmatch(name):
        raise InvalidInput("name", f"{name!r} is not made of letters, digits and _ alone")
    return f'"{name}"'


def _check(key: Mapping[str, object], values: Mapping[str, object], fence: str) -> None:
    if not key:
        raise InvalidInput("key", "is empty: it must name the row")
    for name, value in key.items():
        if value is None:
            raise InvalidInput("key", f"has None for {name!r}, which equals nothing in SQL")
    # SQLite does not tell names apart by case.
    if str(fence).lower() in {str(name).lower() for name in (*key, *values)}:
        raise InvalidInput(
            "fence", f"is {fence!r}, which is also among the key or the values; only the token goes there"
        )


def _only_column(row: Any) -> Any:
    """The value of a one-column row, in whatever shape the connection was told to give rows."""
    if isinstance(row, Mapping):
        return next(iter(row.values()))
    return row if row is None or isinstance(row, int) else row[0]
