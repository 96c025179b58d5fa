"""Connections to one server, kept open and shared by all threads: the standard library's, one user each at a time."""

import http.client
import os
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import NamedTuple

from octostore.client.http.answers import no_answer_in_time, not_reached
from octostore.client.http.patience import CONNECT_SECONDS
from octostore.client.http.server_url import ServerUrl
from octostore.wire.deadline import deadline_header

IDLE_SECONDS = 60
"""After this a connection is not used again: the server closes it after 75."""
MAX_IDLE = 32


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None


class Connections:
    def __init__(self, place: ServerUrl, token: str) -> None:
        self.place = place
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "octostore-python"}
        self._tls = ssl.create_default_context() if place.is_secure else None
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._waiting: set[socket.socket] = set()
        """Those on which an answer may be long in coming."""
        self._is_closed = False
        weakref.finalize(self, _close_all, self._idle)

    def call(self, method: str, path: str, body: bytes | None, seconds: float, *, is_waiting: bool = False) -> Answer:
        """Raises `TryAgain` where there is no answer within `seconds`; with `is_waiting`, also when this is closed."""
        connection = self._take()
        try:
            self._connect(connection)
            with self._told(seconds), self._cut_when_closed(connection) if is_waiting else nullcontext():
                response = self._send(connection, seconds, method, path, body=body, headers=deadline_header(seconds))
                answer = Answer(response.status, response.read(), response.headers.get("Retry-After"))
        except BaseException:
            # Also when the caller is interrupted: what comes later on it would be taken for the next answer.
            connection.close()
            raise
        if not response.will_close:
            self._give_back(connection)
        return answer

    @contextmanager
    def stream(self, path: str, headers: dict[str, str], seconds: float) -> Iterator[http.client.HTTPResponse]:
        """An answer that goes on; `seconds` is how long it may be silent. Raises `TryAgain` where it breaks off."""
        connection = self._take()
        try:
            self._connect(connection)
            with (
                self._told(seconds),
                self._cut_when_closed(connection),
                closing(self._send(connection, seconds, "GET", path, headers=headers)) as response,
            ):
                yield response
        finally:
            connection.close()

    def close(self) -> None:
        """What waits is cut off; what will be answered soon is not."""
        with self._lock:
            self._is_closed = True
            _close_all(self._idle)
            for waiting in self._waiting:
                with suppress(OSError):
                    waiting.shutdown(socket.SHUT_RDWR)

    def start_afresh(self) -> None:
        """In the child of a fork: all connections are its parent's, in whatever thread they are in use there.

        They are closed here, or the server would not notice when the parent has gone. Whatever else belongs to them
        may be in the hands of a thread that is not here to let go of it.
        """
        for one in list(self._sockets):
            descriptor = one.detach()
            if descriptor >= 0:
                os.close(descriptor)
        self._idle.clear()
        self._sockets, self._waiting = weakref.WeakSet(), set()
        self._lock = threading.Lock()

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        is_connected = connection.sock is not None
        if is_connected:
            return
        try:
            connection.connect()
        except (OSError, http.client.HTTPException) as error:
            raise not_reached(self.place.origin, error, was_taken=False) from None
        self._sockets.add(connection.sock)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        seconds: float,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        connection.sock.settimeout(seconds)
        connection.request(method, self.place.base_path + path, body, {**self._headers, **(headers or {})})
        return connection.getresponse()

    @contextmanager
    def _told(self, seconds: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise no_answer_in_time(self.place.origin, seconds) from None
        except (OSError, http.client.HTTPException) as error:
            raise not_reached(self.place.origin, error) from None

    @contextmanager
    def _cut_when_closed(self, connection: http.client.HTTPConnection) -> Iterator[None]:
        waiting: socket.socket = connection.sock
        with self._lock:
            if self._is_closed:
                raise ConnectionAbortedError("it has been closed")
            self._waiting.add(waiting)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.discard(waiting)

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            while self._idle:
                idle_since, connection = self._idle.pop()
                if time.monotonic() - idle_since < IDLE_SECONDS and not _is_closed(connection):
                    return connection
                connection.close()
        if self._tls is not None:
            return http.client.HTTPSConnection(
                self.place.host, self.place.port, timeout=CONNECT_SECONDS, context=self._tls
            )
        return http.client.HTTPConnection(self.place.host, self.place.port, timeout=CONNECT_SECONDS)

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < MAX_IDLE and not self._is_closed:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()


def _close_all(idle: list[tuple[float, http.client.HTTPConnection]]) -> None:
    while idle:
        idle.pop()[1].close()


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has closed it: then there is something to read, namely the end."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
