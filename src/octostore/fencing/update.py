"""A fenced update on a connection of sqlite3, apsw or psycopg."""

from collections.abc import Mapping
from typing import Any, Protocol

from octostore.core.errors import InvalidInput
from octostore.fencing.statement import ParamStyle, Statement, build_fenced_update

_STYLE_OF_DRIVER: dict[str, ParamStyle] = {"sqlite3": "qmark", "apsw": "qmark", "psycopg": "format"}


class Connection(Protocol):
    """A connection or a cursor.

    Example:
        >>> import sqlite3
        >>> connection: octostore.fencing.Connection = sqlite3.connect(":memory:")
    """

    def execute(self, sql: Any, parameters: Any, /) -> Any:
        """Run a statement.

        Args:
            sql: Its text.
            parameters: Its parameters, in the driver's style.

        Returns:
            Something that has `fetchall()`.

        Example:
            >>> import sqlite3
            >>> sqlite3.connect(":memory:").execute("SELECT ?", [1]).fetchall()
            [(1,)]
        """


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
    """Write to a row, unless a newer claim has written to it. Runs in your transaction, and does not commit.

    The row accepts tokens that are not lower than its fence, so an owner can write many times under one claim, and
    repeat a write whose reply was lost. An owner that reads before it writes must first call this without `values`, to
    raise the fence; otherwise, an older claim could still write in between.

    Args:
        connection: A connection or cursor from `sqlite3`, `apsw` (SQLite 3.35 or later) or psycopg 3. For other
            drivers, pass `paramstyle`, or use `build_fenced_update`.
        table: The table, or `schema.table`. Names are quoted, so PostgreSQL respects their case.
        key: The columns that identify the row, with their values. They must be unique in the table.
        values: The columns to write. Without them, only the fence is raised.
        token: The fencing token of your claim.
        fence: The column for the fencing token: BIGINT in PostgreSQL, INTEGER in SQLite. NULL means no writes yet.
        once: Let each claim write at most once; a repeat raises `StaleToken`.
        paramstyle: How the driver writes parameters, if it is not one of those above.

    Raises:
        StaleToken: A newer claim has written, so this write was refused.
        MissingRow: There is no such row.
        InvalidInput: An argument is malformed; nothing was run. See `build_fenced_update`.

    Example:
        >>> import sqlite3
        >>> from octostore.fencing import fenced_update
        >>> db = sqlite3.connect(":memory:")
        >>> _ = db.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER)")
        >>> _ = db.execute("INSERT INTO accounts VALUES (7, 0, NULL)")
        >>> with store.hold("account-7") as claim, db:
        ...     fenced_update(db, "accounts", key={"id": 7}, values={"balance": 12}, token=claim.fencing_token)
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
    # By name, so that no driver has to be installed; by all base classes, because connections get subclassed.
    for kind in type(connection).__mro__:
        style = _STYLE_OF_DRIVER.get(kind.__module__.partition(".")[0])
        if style is not None:
            return style
    raise InvalidInput("paramstyle", f"is needed for a {type(connection).__module__}.{type(connection).__qualname__}")
