"""A store that this process opens only to read: without the writer and the rules."""

import math
import threading
from collections.abc import Iterator

from octostore.client.reader import Reader, follow_log
from octostore.core.errors import Unreachable
from octostore.core.events import Event
from octostore.core.questions import A_co, ListEvents, Question
from octostore.core.retry import RetryPolicy
from octostore.stores.base import OnStep
from octostore.stores.opening import Where, find_store
from octostore.stores.reading import ask


def open_read_only(url: str | None) -> Reader:
    """Open the store that `url` names, as `connect()` does. Not for a server."""
    return Reader(ReadOnlyPort(find_store(url)))


class ReadOnlyPort:
    def __init__(self, where: Where) -> None:
        try:
            self._backend = where.open_backend()
        except Unreachable as fault:
            if fault.reason != "disk_full" or where.open_alone is None:
                raise
            self._backend = where.open_alone()
        self._clock = where.clock

    def ask(self, question: Question[A_co]) -> A_co:
        return ask(self._backend, question, self._clock, RetryPolicy())

    def follow(self, question: ListEvents, wait: float = math.inf) -> Iterator[Event]:
        bell = threading.Event()
        self._backend.on_foreign_commit(bell.set)
        return follow_log(self, question, bell, wait, self._backend.poll_seconds)

    def back_up(self, copy: str, on_step: OnStep | None) -> int:
        return self._backend.back_up(copy, on_step)

    def close(self) -> None:
        self._backend.close()
