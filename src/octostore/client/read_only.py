"""A store that this process opens only to read: without the writer and the rules."""

import math
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from octostore.client.reader import Reader, follow_log
from octostore.core.errors import Unreachable
from octostore.core.events import Event
from octostore.core.questions import A_co, ListEvents, Question
from octostore.core.retry import RetryPolicy
from octostore.stores.base import Backend, OnStep
from octostore.stores.opening import Where, find_store
from octostore.stores.reading import ask

FULL_DISK_POLL_SECONDS = 1.0
"""How often to poll the log on a full disk, where each poll locks the file."""


def open_read_only(url: str | None) -> Reader:
    """Open the store that `url` names, as `connect()` does. Not for a server."""
    return Reader(ReadOnlyPort(find_store(url)))


class ReadOnlyPort:
    def __init__(self, where: Where) -> None:
        self._where = where
        self._backend: Backend | None = None
        with self._lend_backend():
            pass  # raise now if it cannot be opened

    @contextmanager
    def _lend_backend(self) -> Iterator[Backend]:
        """On a full disk it locks the file, so it is closed again; the next one may find space, or others at work."""
        if self._backend is None:
            try:
                self._backend = self._where.open_backend()
            except Unreachable as fault:
                if fault.reason != "disk_full" or self._where.open_alone is None:
                    raise
                with closing(self._where.open_alone()) as backend:
                    yield backend
                return
        yield self._backend

    def ask(self, question: Question[A_co]) -> A_co:
        with self._lend_backend() as backend:
            return ask(backend, question, self._where.clock, RetryPolicy())

    def follow(self, question: ListEvents, wait: float = math.inf) -> Iterator[Event]:
        bell = threading.Event()
        if self._backend is None:
            return follow_log(self, question, bell, wait, FULL_DISK_POLL_SECONDS)
        self._backend.on_foreign_commit(bell.set)
        return follow_log(self, question, bell, wait, self._backend.poll_seconds)

    def back_up(self, copy: str, on_step: OnStep | None) -> int:
        self._backend = self._backend or self._where.open_backend()
        return self._backend.back_up(copy, on_step)

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
