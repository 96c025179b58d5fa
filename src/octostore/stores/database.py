"""How a transaction talks to its database: named statements, whose results may arrive later."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from octostore.stores.rows import Row


class Result(Protocol):
    @property
    def rows(self) -> Sequence[Row]:
        """The statement's rows; available after `run`."""


class Database(Protocol):
    """Statements, collected until `run` sends them in one round trip; SQLite runs them immediately."""

    def query(self, query: str, **values: Any) -> Result: ...

    def query_each(self, query: str, rows: Sequence[Row]) -> Result:
        """Run the query for each row of values."""

    def write(self, query: str, rows: Sequence[Row]) -> None:
        """Write each row of values."""

    def run(self) -> None: ...


class LazyResult(NamedTuple):
    """A result that is rarely needed: queried separately, when its rows are first read."""

    database: Database
    ask: Callable[[], Result]

    @property
    def rows(self) -> Sequence[Row]:
        result = self.ask()
        self.database.run()
        return result.rows


class _Nothing:
    rows: Sequence[Row] = ()


NO_ROWS: Result = _Nothing()
"""The result of a query that was not needed."""
