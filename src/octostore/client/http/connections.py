"""Connections to one server, kept open and shared by all threads, one call each at a time."""

import os
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

from octostore.client.http.connection import Connection, Response
from octostore.client.http.listeners import check_listener
from octostore.client.http.responses import connection_failed, timed_out
from octostore.client.http.retry_budget import CONNECT_SECONDS
from octostore.client.http.server_url import ServerUrl
from octostore.wire.deadline import deadline_header

IDLE_SECONDS = 60
"""After this a connection is not reused: the server closes it after 75 seconds."""
MAX_IDLE = 32


class Connections:
    def __init__(self, server_url: ServerUrl, token: str) -> None:
        self.server_url = server_url
        self._headers = (
            f"Host: {server_url.address}\r\nAuthorization: Bearer {token}\r\nUser-Agent: octostore-python\r\n"
            "Accept-Encoding: identity\r\n"  # a proxy might compress, and nothing here decompresses
        )
        # Only if needed, because ssl is slow to import.
        self._tls = import_module("ssl").create_default_context() if server_url.is_secure else None
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._waiting: set[socket.socket] = set()
        """Sockets whose response may take a long time."""
        self._is_closed = False
        weakref.finalize(self, _close_all, self._idle)

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None,
        seconds: float,
        *,
        headers: dict[str, str] | None = None,
        is_waiting: bool = False,
    ) -> tuple[Response, bytes]:
        """Raises `TryAgain` if there is no response within `seconds`, or if `is_waiting` and this is closed."""
        request = self._request(method, path, deadline_header(seconds) | (headers or {}), body or b"")
        connection = self._take()
        try:
            if is_waiting:
                self._cut_when_closed(connection)
            response = connection.ask(request, seconds)
            content = response.read()
        except BaseException as error:  # noqa: BLE001  # raised again
            raise self._failure(connection, error, seconds) from None
        self._put_back(connection, is_usable=not response.is_last)
        return response, content

    @contextmanager
    def stream(self, path: str, headers: dict[str, str], seconds: float) -> Iterator[Response]:
        """An endless response; `seconds` is how long it may be silent. Raises `TryAgain` when it breaks off."""
        connection = self._take()
        try:
            self._cut_when_closed(connection)
            yield connection.ask(self._request("GET", path, headers), seconds)
        except BaseException as error:  # noqa: BLE001  # raised again
            raise self._failure(connection, error, seconds) from None
        self._put_back(connection, is_usable=False)

    def close(self) -> None:
        """Cut off calls that wait. Calls that will get a response soon may finish."""
        with self._lock:
            self._is_closed = True
            _close_all(self._idle)
            for waiting in self._waiting:
                with suppress(OSError):
                    waiting.shutdown(socket.SHUT_RDWR)

    def reset_after_fork(self) -> None:
        """In a forked child: all connections are the parent's, and may be in use there.

        Close the child's copies, or the server would not notice when the parent is gone. Touch nothing else: its locks
        may be held by a thread that does not exist here.
        """
        for one in list(self._sockets):
            descriptor = one.detach()
            if descriptor >= 0:
                os.close(descriptor)
        self._idle.clear()
        self._sockets, self._waiting = weakref.WeakSet(), set()
        self._lock = threading.Lock()

    def _request(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        line = f"{method} {self.server_url.base_path}{path} HTTP/1.1\r\n"
        # In one piece: a server that gets the head first is woken twice.
        return f"{line}{self._headers}{more}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _failure(self, connection: Connection, error: BaseException, seconds: float) -> BaseException:
        # Also if the caller was interrupted: a late response would be taken for the next one's.
        self._put_back(connection, is_usable=False)
        if isinstance(error, TimeoutError):
            return timed_out(self.server_url.origin, seconds)
        return connection_failed(self.server_url.origin, error) if isinstance(error, OSError) else error

    def _cut_when_closed(self, connection: Connection) -> None:
        with self._lock:
            if self._is_closed:
                raise ConnectionAbortedError("this store has been closed")
            self._waiting.add(connection.socket)

    def _take(self) -> Connection:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if time.monotonic() - connection.idle_since < IDLE_SECONDS and not connection.has_ended():
                    return connection
                connection.socket.close()
        try:
            connection = Connection(self._connected())
        except OSError as error:
            raise connection_failed(self.server_url.origin, error, was_taken=False) from None
        self._sockets.add(connection.socket)
        return connection

    def _connected(self) -> socket.socket:
        connected = socket.create_connection((self.server_url.host, self.server_url.port), CONNECT_SECONDS)
        try:
            check_listener(self.server_url)
        except BaseException:
            connected.close()
            raise
        if self._tls is not None:
            connected = self._tls.wrap_socket(connected, server_hostname=self.server_url.host)
        return connected

    def _put_back(self, connection: Connection, *, is_usable: bool) -> None:
        connection.idle_since = time.monotonic()
        with self._lock:
            self._waiting.discard(connection.socket)
            if is_usable and len(self._idle) < MAX_IDLE and not self._is_closed:
                self._idle.append(connection)
                return
        connection.socket.close()


def _close_all(idle: list[Connection]) -> None:
    while idle:
        idle.pop().socket.close()
