"""A pool of reading connections: as many as are in use, plus a few idle ones."""

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from octostore.core.errors import Unreachable

IDLE_READERS = 4


class Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class Readers(Generic[C]):
    def __init__(self, connect: Callable[[], C], is_good: Callable[[C], bool] = lambda _: True) -> None:
        self._connect = connect
        self._is_good = is_good
        self._lock = threading.Lock()
        self.idle: list[C] = []
        self.is_closed = False

    def take(self) -> C:
        with self._lock:
            if self.is_closed:
                raise Unreachable("this store has been closed", reason="closed")
            while self.idle:
                connection = self.idle.pop()
                if self._is_good(connection):
                    return connection
        return self._connect()

    def put_back(self, connection: C) -> None:
        with self._lock:
            if not self.is_closed and self._is_good(connection) and len(self.idle) < IDLE_READERS:
                self.idle.append(connection)
                return
        connection.close()

    def drop(self) -> None:
        """Close the idle ones: a fault of one connection usually affects all of them."""
        for connection in self._take_idle():
            connection.close()

    def end(self) -> list[C]:
        """Refuse further use, and return the connections to close."""
        self.is_closed = True
        return self._take_idle()

    def _take_idle(self) -> list[C]:
        with self._lock:
            idle, self.idle = self.idle, []
        return idle
