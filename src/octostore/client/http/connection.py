"""One connection to a server, and as much of HTTP/1.1 as it needs: one request after another."""

import re
import select
import socket
from collections.abc import Iterator
from functools import partial

PART_BYTES = MAX_HEAD_BYTES = 2**16
EARLY = range(100, 200)
"""Informational responses, before the real one."""
SHORTEST_SECONDS = 0.001
"""A timeout of 0 would not wait at all."""
WITHOUT_BODY = {204, 304}

_STATUS = re.compile(r"http/1\.([01]) ([1-5][0-9]{2})(?![^ \r])")
_HEADER = re.compile(r"\r\n([^:\r\n]+):[ \t]*([^\r\n]*)")


class Connection:
    """Raises `OSError` if there is no response; close it then."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connected
        self.idle_since = 0.0
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)
        self._came = b""

    def ask(self, request: bytes, seconds: float) -> "Response":
        """`seconds` is how long the server may be silent, even in the middle of a response."""
        if self.socket.gettimeout() != seconds:
            self.socket.settimeout(seconds)
        self.socket.sendall(request)
        while (response := Response(self)).status in EARLY:
            pass
        return response

    def has_ended(self) -> bool:
        """Whether the server closed it while it was idle: then there is something to read, the end."""
        return bool(self._came or self._poll.poll(0))

    def read_until(self, end: bytes) -> str:
        """In lower case: nothing that is read this way is case-sensitive."""
        while end not in self._came:
            part = self.socket.recv(PART_BYTES)
            if not part or len(self._came) > MAX_HEAD_BYTES:
                raise ConnectionError("its response is incomplete or too long")
            self._came += part
        text, _, self._came = self._came.partition(end)
        return text.decode("latin-1").lower()

    def read_part(self, most: int) -> bytes:
        """Empty at the end of the connection."""
        came = self._came or self.socket.recv(PART_BYTES)
        self._came = came[most:]
        return came[:most]


class Response:
    """A response whose head has been read."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        head = connection.read_until(b"\r\n\r\n")
        start = _STATUS.match(head)
        if start is None:
            raise ConnectionError("its response is not HTTP")
        self.status = int(start[2])
        self.headers: dict[str, str] = dict(_HEADER.findall(head))
        self.is_last = start[1] == "0" or "close" in self.headers.get("connection", "")
        """Whether the connection closes after this response. Certain only once the body has been read."""

    def limit_silence(self, seconds: float) -> None:
        """How long the next part of the body may take."""
        self._connection.socket.settimeout(max(seconds, SHORTEST_SECONDS))

    def read(self) -> bytes:
        return b"".join(self.parts())

    def parts(self) -> Iterator[bytes]:
        """The body, as it arrives."""
        if self.status in WITHOUT_BODY:
            return
        if "chunked" in self.headers.get("transfer-encoding", ""):
            while size := _number(self._connection.read_until(b"\r\n").partition(";")[0], 16):
                yield from self._sized(size)
                self._connection.read_until(b"\r\n")
            while self._connection.read_until(b"\r\n"):
                pass  # trailers
        elif "content-length" in self.headers:
            yield from self._sized(_number(self.headers["content-length"], 10))
        else:
            self.is_last = True
            yield from iter(partial(self._connection.read_part, PART_BYTES), b"")

    def _sized(self, left: int) -> Iterator[bytes]:
        while left > 0:
            part = self._connection.read_part(left)
            if not part:
                raise ConnectionError("its response is incomplete")
            left -= len(part)
            yield part


def _number(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise ConnectionError("its response has no valid length") from None
