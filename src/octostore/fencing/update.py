"""A fenced update on a connection of sqlite3, apsw or psycopg."""

from collections.abc import Mapping
from typing import Any, Protocol

from octostore.core.errors import InvalidInput
from octostore.fencing.statement import ParamStyle, Statement, build_fenced_update

_STYLE_OF_DRIVER: dict[str, ParamStyle] = {"sqlite3": "qmark", "apsw": "qmark", "psycopg": "format"}


class Connection(Protocol):
    """What can run a statement: a connection or a cursor."""

    def execute(self, sql: Any, parameters: Any, /) -> Any:
        """Run it, and return what has `fetchall()`."""


def fenced_update(
    connection: Connection,
    table: str,
    *,
    key: Mapping[str, object],
    values: Mapping[str, object] | None = None,
    token: int,
    fence: str = "fence",
    once: bool = False,
    paramstyle: ParamStyle | None = None,
) -> None:
    """Write `values` into the row that `key` names, unless a newer claim has written there.

    Returns when the row is written, and `token` with it, into the column `fence`. Raises `StaleToken` with the fence
    as it stands, or `MissingRow`; then nothing was written. Without `values` it only raises the fence. An owner does
    that before it reads what it will write back: otherwise an older claim can still write in between, and be undone.

    The row passes tokens that are not lower than its fence, so an owner can write many times under one claim, and
    repeat a write whose answer was lost. With `once` they must be higher: each claim writes at most once, and a repeat
    is `StaleToken`, too. NULL in `fence` means that nobody has written yet.

    `connection` is a connection or cursor of `sqlite3`, `apsw` (SQLite 3.35 or later) or psycopg 3. For others say
    their `paramstyle`, or use `build_fenced_update`. It runs in the caller's transaction, and does not commit.

    `table` may be `schema.table`. Names are quoted, so PostgreSQL takes their case as it is written. `key` has to be
    unique in the table. `fence` has to be an integer column: BIGINT in PostgreSQL, INTEGER in SQLite.

    Raises `InvalidInput`, before anything runs, where `build_fenced_update` does.
    """
    update = build_fenced_update(
        table,
        key=key,
        values=values,
        token=token,
        fence=fence,
        once=once,
        paramstyle=paramstyle or _style_of(connection),
    )
    if not _run(connection, update.write):
        raise update.refusal(_run(connection, update.look))


def _run(connection: Connection, statement: Statement) -> list[Any]:
    rows: list[Any] = connection.execute(statement.sql, statement.parameters).fetchall()
    return rows


def _style_of(connection: object) -> ParamStyle:
    # By name, so that no driver has to be installed; and by all base classes, because connections get subclassed.
    for kind in type(connection).__mro__:
        style = _STYLE_OF_DRIVER.get(kind.__module__.partition(".")[0])
        if style is not None:
            return style
    raise InvalidInput("paramstyle", f"is needed for a {type(connection).__module__}.{type(connection).__qualname__}")
