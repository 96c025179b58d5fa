"""Connections to one server, kept open and shared by all threads: the standard library's, one user each at a time."""

import http.client
import os
import select
import ssl
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from octostore.client.http.answers import no_answer_in_time, not_reached
from octostore.client.http.patience import CONNECT_SECONDS
from octostore.client.http.server_url import ServerUrl

IDLE_SECONDS = 60
"""After this a connection is not used again: the server closes it after 75."""
MAX_IDLE = 32


class Connections:
    def __init__(self, place: ServerUrl, token: str) -> None:
        self.place = place
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "octostore-python"}
        self._tls = ssl.create_default_context() if place.is_secure else None
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._pid = os.getpid()
        weakref.finalize(self, _close_all, self._idle)

    def call(self, method: str, path: str, body: bytes | None, seconds: float) -> tuple[int, bytes]:
        """Status and body; raises `TryAgain` where there is no answer within `seconds`."""
        connection = self._take()
        try:
            with self._told(seconds):
                response = self._send(connection, seconds, method, path, body=body)
                answer = response.status, response.read()
        except BaseException:
            # Also when the caller is interrupted: what comes later on it would be taken for the next answer.
            connection.close()
            raise
        if not response.will_close:
            self._give_back(connection)
        return answer

    @contextmanager
    def stream(self, path: str, headers: dict[str, str], seconds: float) -> Iterator[http.client.HTTPResponse]:
        """An answer that goes on; `seconds` is how long it may be silent. Reading it raises `OSError` and such."""
        connection = self._take()
        try:
            with self._told(seconds):
                response = self._send(connection, seconds, "GET", path, headers=headers)
            yield response
        finally:
            connection.close()

    def close(self) -> None:
        with self._lock:
            _close_all(self._idle)

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
        if connection.sock is None:
            connection.connect()
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

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._pid != os.getpid():
                # A fork has copied them. They are the parent's, which does not notice that this copy is closed.
                _close_all(self._idle)
                self._pid = os.getpid()
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
            if len(self._idle) < MAX_IDLE:
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
