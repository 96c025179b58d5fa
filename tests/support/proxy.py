"""A proxy between a client and a server that records requests, and can fail like networks and proxies do."""

import http.client
import json
import select
import socket
import ssl
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from tests.support.processes import PATIENCE_SECONDS

HOP_BY_HOP = {"connection", "transfer-encoding", "content-length"}


class Seen(NamedTuple):
    """A request, as received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_stream(self) -> bool:
        return self.headers.get("accept") == "text/event-stream"


class Exchange:
    """One request, its connection, and the server behind the proxy."""

    def __init__(self, proxy: "Proxy", client: socket.socket, seen: Seen) -> None:
        self.proxy = proxy
        self.client = client
        self.seen = seen

    def ask(self) -> bytes:
        """Ask the server, and return its response as bytes."""
        upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.upstream_port, timeout=PATIENCE_SECONDS)
        try:
            upstream.request(self.seen.method, self._path(), self.seen.body, self.seen.headers)
            response = upstream.getresponse()
            body = response.read()
            headers = {name: value for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP}
            return response_bytes(response.status, body, headers)
        finally:
            upstream.close()

    def relay(self, seconds: float = 3_600, most: int = sys.maxsize) -> None:
        """Pass on a stream, for this many seconds and up to `most` bytes."""
        until = time.monotonic() + seconds
        with socket.create_connection(("127.0.0.1", self.proxy.upstream_port), PATIENCE_SECONDS) as upstream:
            fields = "".join(f"{name}: {value}\r\n" for name, value in self.seen.headers.items())
            upstream.sendall(f"{self.seen.method} {self._path()} HTTP/1.1\r\n{fields}\r\n".encode())
            while most > 0 and (left := until - time.monotonic()) > 0:
                readable = select.select([upstream, self.client], [], [], left)[0]
                if self.client in readable:
                    return
                if upstream in readable:
                    part = upstream.recv(min(most, 65_536))
                    if not part:
                        return
                    self.client.sendall(part)
                    most -= len(part)

    def reset(self) -> None:
        """Reset the connection: the client gets an error."""
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConnectionAbortedError

    def wait_until_gone(self) -> None:
        """Wait until the client has closed the connection."""
        with suppress(OSError):
            while self.client.recv(65_536):
                pass
        self.proxy.gone.set()
        raise ConnectionAbortedError

    def _path(self) -> str:
        return self.seen.path.removeprefix(self.proxy.base_path) if self.proxy.strips else self.seen.path


Act: TypeAlias = Callable[[Exchange], None]
"""What happens to a request. Raises `ConnectionAbortedError` to end the connection."""


def response_bytes(status: int, body: bytes, headers: dict[str, str]) -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Whatever\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body


def pass_on(exchange: Exchange) -> None:
    if not exchange.seen.path.startswith(exchange.proxy.base_path + "/"):
        exchange.client.sendall(response_bytes(404, b"<h1>Not found</h1>", {}))
    elif exchange.seen.is_stream:
        exchange.relay()
        raise ConnectionAbortedError
    else:
        exchange.client.sendall(exchange.ask())


def pass_on_and_close(exchange: Exchange) -> None:
    """Close the connection afterwards without notice, as servers do if it was idle for too long."""
    pass_on(exchange)
    raise ConnectionAbortedError


def reset(exchange: Exchange) -> None:
    exchange.reset()


def lose_the_response(exchange: Exchange) -> None:
    exchange.ask()
    exchange.reset()


def cut_the_response(exchange: Exchange) -> None:
    """The server did it, but dies in the middle of its response."""
    exchange.client.sendall(exchange.ask()[:-5])
    raise ConnectionAbortedError


def talk_nonsense(exchange: Exchange) -> None:
    exchange.client.sendall(b"\x16\x03\x01 who goes there?\r\n\r\n")
    raise ConnectionAbortedError


def say_nothing(exchange: Exchange) -> None:
    exchange.wait_until_gone()


def say_nothing_for(seconds: float) -> Act:
    def act(exchange: Exchange) -> None:
        select.select([exchange.client], [], [], seconds)
        exchange.reset()

    return act


def pass_on_for(seconds: float, most: int = sys.maxsize) -> Act:
    """Pass on a stream for this many seconds, up to `most` bytes."""

    def act(exchange: Exchange) -> None:
        exchange.relay(seconds, most)
        raise ConnectionAbortedError

    return act


def pass_on_after(event: threading.Event) -> Act:
    """The server responds at once, and the client gets the response after the event."""

    def act(exchange: Exchange) -> None:
        response = exchange.ask()
        assert event.wait(PATIENCE_SECONDS)
        exchange.client.sendall(response)

    return act


def respond(status: int, body: bytes | dict[str, Any] = b"", **headers: str) -> Act:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange: exchange.client.sendall(response_bytes(status, content, fields))


class Proxy:
    """A proxy for the server on `upstream_port`. `then` sets what happens to the next requests."""

    def __init__(
        self,
        upstream_port: int = 0,
        *,
        base_path: str = "",
        strips: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`strips`: whether the server gets paths without the `base_path`."""
        self.upstream_port = upstream_port
        self.base_path = base_path
        self.strips = strips
        self.seen: list[Seen] = []
        self.connections = 0
        self.gone = threading.Event()
        """Set when a client has closed its connection instead of waiting."""
        self._acts: deque[Act] = deque()
        self._always: Act = pass_on
        self._tls = tls
        self._clients: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}{base_path}"
        self._start(self._accept)

    def then(self, *acts: Act) -> Self:
        self._acts.extend(acts)
        return self

    def always(self, act: Act) -> Self:
        self._always = act
        return self

    def has_seen(self, number: int) -> bool:
        """Whether at least this many requests have arrived."""
        return len(self.seen) >= number

    def close(self) -> None:
        for one in (self._listener, *list(self._clients)):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self.connections += 1
                self._start(self._serve, client, self.connections)

    def _serve(self, client: socket.socket, number: int) -> None:
        self._clients.add(client)
        try:
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True)
            with client.makefile("rb") as incoming:
                while (seen := _read_request(incoming, number)) is not None:
                    self.seen.append(seen)
                    act = self._acts.popleft() if self._acts else self._always
                    act(Exchange(self, client, seen))
        except (OSError, http.client.HTTPException):
            pass  # one side is gone, possibly on purpose
        finally:
            client.close()
            self._clients.discard(client)


def _read_request(incoming: Any, connection: int) -> Seen | None:
    line = incoming.readline().decode("latin-1")
    if not line:
        return None
    method, path, _version = line.split()
    headers = {name.lower(): value for name, value in http.client.parse_headers(incoming).items()}
    body = incoming.read(int(headers.get("content-length", 0)))
    return Seen(method, path, headers, body, time.monotonic(), connection)
