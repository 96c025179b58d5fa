"""Unusual connections to a server: raw sockets and event streams."""

import http.client
import json
import socket
from collections.abc import Iterator, Sequence
from io import BytesIO
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support.processes import PATIENCE_SECONDS


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @classmethod
    def read_from(cls, response: http.client.HTTPResponse) -> "Response":
        """Read the body, except a stream's, which would not end."""
        headers = {name.lower(): value for name, value in response.getheaders()}
        is_stream = headers.get("content-type", "").startswith("text/event-stream")
        return cls(response.status, headers, b"" if is_stream else response.read())


class Connection:
    """A socket on which tests can send anything."""

    def __init__(self, port: int, *, receive_buffer: int | None = None, address: str | None = None) -> None:
        """`address` is the client's: on Linux, every address in 127.0.0.0/8 is this machine's."""
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE_SECONDS)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            if address is not None:
                self.socket.bind((address, 0))
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise

    def send(self, content: bytes) -> None:
        self.socket.sendall(content)

    def request(self, method: str, path: str, body: Any = None, *, token: str, headers: str = "") -> None:
        """Send a request, and do not wait for the response."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}"
        self.send(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)

    def response(self, method: str = "GET") -> Response:
        response = http.client.HTTPResponse(self.socket, method=method)
        try:
            response.begin()
            return Response.read_from(response)
        finally:
            response.close()

    def get_all(self, path: str, tokens: Sequence[str]) -> list[Response]:
        """Send all requests at once, for the highest load. The connection cannot be used afterwards."""
        heads = [f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n" for token in tokens]
        self.send(("\r\n".join(heads) + "Connection: close\r\n\r\n").encode())
        received = _Received(self.everything())
        return [received.next_response() for _ in tokens]

    def everything(self) -> bytes:
        """Everything until the other side closes or resets the connection."""
        content = b""
        try:
            while part := self.socket.recv(1 << 20):
                content += part
        except ConnectionResetError:
            pass
        return content

    def is_ended(self) -> bool:
        """Whether the other side closes it without sending more."""
        return self.everything() == b""

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()


class _Received(BytesIO):
    """What was received on a connection, in place of its socket."""

    def next_response(self) -> Response:
        response = http.client.HTTPResponse(self)  # type: ignore[arg-type]
        response.begin()
        return Response.read_from(response)

    def makefile(self, _mode: str) -> Self:
        return self

    def close(self) -> None:
        """Ignored: each response closes it, and the next one follows."""


class Frame(NamedTuple):
    id: str | None
    event: str | None
    data: Any


class Stream:
    """Server-sent events: the frames with data, without comments."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        self.connection.request("GET", path, headers=headers)
        self._response = self.connection.getresponse()
        self.status = self._response.status
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}

    def __iter__(self) -> Iterator[Frame]:
        fields: dict[str, str] = {}
        while line := self._response.readline():
            text = line.decode().rstrip("\n")
            if text:
                name, _, value = text.partition(": ")
                fields[name] = value
            else:
                if "data" in fields:
                    yield Frame(fields.get("id"), fields.get("event"), json.loads(fields["data"]))
                fields = {}

    def next(self) -> Frame:
        return next(iter(self))

    def take(self, count: int) -> list[Frame]:
        return [self.next() for _ in range(count)]

    def rest(self) -> list[Frame]:
        """Everything until the server closes it."""
        return list(self)

    def close(self) -> None:
        self._response.close()
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()
