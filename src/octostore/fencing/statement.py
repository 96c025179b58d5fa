"""The SQL of a fenced update: text and parameters, for any connection."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from octostore.core.errors import InvalidInput
from octostore.fencing.errors import MissingRow, StaleToken, check_token

ParamStyle = Literal["qmark", "named", "format", "pyformat", "numeric_dollar"]
"""How a driver writes parameters: `?`, `:p1`, `%s`, `%(p1)s` or `$1`. PEP 249 defines all these names but the last."""

_PLACEHOLDERS: dict[ParamStyle, str] = {
    "qmark": "?",
    "named": ":p{n}",
    "format": "%s",
    "pyformat": "%(p{n})s",
    "numeric_dollar": "${n}",
}
_WORD = re.compile(r"\w+")


class Statement(NamedTuple):
    """SQL and its parameters, to pass to a driver's `execute`.

    Example:
        >>> octostore.fencing.Statement("SELECT ?", [1]).sql
        'SELECT ?'
    """

    sql: str
    parameters: list[object] | dict[str, object]


@dataclass(frozen=True)
class FencedUpdate:
    """A guarded write, ready to run with any driver.

    Run `write`. If it returns rows, they were written. If not, nothing was written: run `look`, and pass its rows to
    `refusal`, which returns the exception to raise.

    Example:
        >>> update = octostore.fencing.build_fenced_update(
        ...     "accounts", key={"id": 7}, values={"balance": 12}, token=41, paramstyle="qmark"
        ... )
        >>> update.look.sql
        'SELECT guarded."fence" FROM "accounts" AS guarded WHERE guarded."id" = ?'
    """

    table: str
    key: dict[str, object]
    token: int
    once: bool
    write: Statement
    look: Statement

    def refusal(self, found: Sequence[Any]) -> StaleToken | MissingRow:
        """Tell a stale token from a missing row after `write` has written nothing.

        The row may have changed between `write` and `look`, so the reason may reflect the later state; the write was
        refused either way. If `look` finds a row that would accept this token, the row was added later, or the database
        hides it from writes. It then counts as missing.

        Args:
            found: The rows that `look` returned.

        Returns:
            The exception to raise.

        Example:
            >>> update = octostore.fencing.build_fenced_update("accounts", key={"id": 7}, token=41, paramstyle="qmark")
            >>> str(update.refusal([(42,)]))
            "fencing token 41 is stale: 42 has been seen ({'id': 7})"
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
    """Build the statements that `fenced_update` runs, for drivers it does not know.

    Args:
        table: See `fenced_update` for this and the other arguments.
        key: The columns that identify the row, with their values.
        values: The columns to write. Without them, only the fence is raised.
        token: The fencing token of your claim.
        fence: The column for the fencing token.
        once: Let each claim write at most once.
        paramstyle: How the driver writes parameters.

    Returns:
        The statements.

    Raises:
        InvalidInput: A name has characters other than letters, digits and `_`; `key` is empty or contains None; or
            `fence` is among `key` or `values`.

    Example:
        >>> update = octostore.fencing.build_fenced_update("accounts", key={"id": 7}, token=41, paramstyle="named")
        >>> update.write.parameters
        {'p1': 41, 'p2': 7, 'p3': 41}
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
    """Returns a placeholder for each value. Values never become part of the SQL."""

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
    # Always qualified: SQLite takes a quoted name that is not a column for text, so a typo would match every row.
    return f"guarded.{_quoted(name)}"


def _quoted(name: str) -> str:
    if not isinstance(name, str) or not _WORD.fullmatch(name):
        raise InvalidInput("name", f"{name!r} must contain only letters, digits and _")
    return f'"{name}"'


def _check(key: Mapping[str, object], values: Mapping[str, object], fence: str) -> None:
    if not key:
        raise InvalidInput("key", "is empty: it must name the row")
    for name, value in key.items():
        if value is None:
            raise InvalidInput("key", f"has None for {name!r}; in SQL, NULL is never equal to anything")
    # SQLite does not tell names apart by case.
    if str(fence).lower() in {str(name).lower() for name in (*key, *values)}:
        raise InvalidInput(
            "fence", f"is {fence!r}, which is also in the key or the values; that column is only for the fencing token"
        )


def _only_column(row: Any) -> Any:
    """The value of a one-column row, whatever the connection's row type."""
    if isinstance(row, Mapping):
        return next(iter(row.values()))
    return row if row is None or isinstance(row, int) else row[0]
