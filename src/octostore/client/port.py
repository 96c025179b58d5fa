"""What the library stands on: something that answers commands and questions, here or over a network."""

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from octostore.client.reader import ReadingPort
from octostore.core.commands import Command, R_co
from octostore.core.events import Event
from octostore.core.questions import ListEvents, Question

if TYPE_CHECKING:
    from octostore.client.spans import Spans


class Port(ReadingPort, Protocol):
    """Methods raise the `OctoStoreError` that refuses a command, or `Unreachable` where there was no answer."""

    spans: "Spans | None"
    """What makes spans of calls and of the work on jobs, if anybody wants them."""

    def submit(self, command: Command[R_co]) -> "Future[R_co]":
        """The answer, once it is durable; whoever asks may stop waiting for it."""

    def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        """The answer; for a claim that somebody else's keeps from succeeding, the one after up to `wait` seconds."""

    def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        """The answers, or the errors in their place: raises none. In order; `atomic` for all in one transaction."""


class AsyncPort(Protocol):
    """The same, awaited."""

    @property
    def blocking(self) -> Port:
        """The same store for threads, such as the one that heartbeats."""

    async def execute(self, command: Command[R_co], wait: float = 0) -> R_co: ...

    async def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]: ...

    def undo_claims(self, answers: Sequence[Any]) -> None:
        """What was claimed for a caller who is cancelled before it hears of it."""

    async def ask(self, question: Question[R_co]) -> R_co: ...

    def follow(self, question: ListEvents) -> AsyncIterator[Event]: ...

    async def close(self) -> None: ...
