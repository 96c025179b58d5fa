"""What the library is built on: something that replies to commands and questions, here or over a network."""

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
    """Methods raise the `OctoStoreError` that refuses a command, or `Unreachable` if there is no reply."""

    spans: "Spans | None"
    """Creates spans for calls and for the work on jobs, if tracing is on."""

    def submit(self, command: Command[R_co]) -> "Future[R_co]":
        """Return the reply once it is durable. The caller may stop waiting for it."""

    def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        """Return the reply. A claim that cannot succeed yet is retried for `wait` seconds."""

    def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        """Return one reply or error per command, in order. `atomic` runs them in one transaction."""


class AsyncPort(Protocol):
    """The same, awaited."""

    @property
    def blocking(self) -> Port:
        """The same store for threads, like the one that sends heartbeats."""

    async def execute(self, command: Command[R_co], wait: float = 0) -> R_co: ...

    async def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]: ...

    def undo_claims(self, replies: Sequence[Any]) -> None:
        """Undo the claims of a caller that was cancelled before it got these replies."""

    async def ask(self, question: Question[R_co]) -> R_co: ...

    def follow(self, question: ListEvents) -> AsyncIterator[Event]: ...

    async def close(self) -> None: ...
