"""How a transaction speaks to its database: statements by name, whose answers may come later."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from octostore.stores.rows import Row


class Result(Protocol):
    @property
    def rows(self) -> Sequence[Row]:
        """What the statement gave; to be looked at after `run`."""


class Database(Protocol):
    """Statements: collected until `run` sends them in one round trip, or run at once where there are no round trips."""

    def query(self, query: str, **values: Any) -> Result: ...

    def query_each(self, query: str, rows: Sequence[Row]) -> Result:
        """What it gives for each row of values."""

    def write(self, query: str, rows: Sequence[Row]) -> None:
        """Change something for each row of values."""

    def run(self) -> None: ...


class LazyResult(NamedTuple):
    """What is hardly ever needed: asked, by itself, when the answer is looked at."""

    database: Database
    ask: Callable[[], Result]

    @property
    def rows(self) -> Sequence[Row]:
        answer = self.ask()
        self.database.run()
        return answer.rows


class _Nothing:
    rows: Sequence[Row] = ()


NO_ROWS: Result = _Nothing()
"""The answer to what was not asked."""
