"""How a transaction speaks to its database: statements by name, whose answers may come later."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from octostore.stores.rows import Row


class Answer(Protocol):
    @property
    def rows(self) -> Sequence[Row]:
        """What the statement gave; to be looked at after `run`."""


class Asking(Protocol):
    """Statements: collected until `run` sends them in one round trip, or run at once where there are no round trips."""

    def ask(self, query: str, **values: Any) -> Answer: ...

    def each(self, query: str, rows: Sequence[Row]) -> Answer:
        """What it gives for each row of values."""

    def write(self, query: str, rows: Sequence[Row]) -> None:
        """Change something for each row of values."""

    def run(self) -> None: ...


class Later(NamedTuple):
    """What is hardly ever needed: asked, by itself, when the answer is looked at."""

    asking: Asking
    ask: Callable[[], Answer]

    @property
    def rows(self) -> Sequence[Row]:
        answer = self.ask()
        self.asking.run()
        return answer.rows


class _Nothing:
    rows: Sequence[Row] = ()


NOTHING: Answer = _Nothing()
"""The answer to what was not asked."""
