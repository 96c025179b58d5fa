"""HTTP responses as servers and proxies write them, in pieces of any size, and malformed ones."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.client.http.connection import MAX_HEAD_BYTES, Connection, Response

REQUEST = b"GET /jobs HTTP/1.1\r\n\r\n"
SECONDS = 10.0


class Line(NamedTuple):
    near: Connection
    far: socket.socket

    def write(self, *pieces: bytes) -> None:
        """In another thread, because long data waits for its reader."""

        def run() -> None:
            with suppress(OSError):  # the reader may have hung up
                for piece in pieces:
                    self.far.sendall(piece)
                self.far.shutdown(socket.SHUT_WR)

        threading.Thread(target=run, daemon=True).start()

    def ask(self) -> Response:
        return self.near.ask(REQUEST, SECONDS)


@pytest.fixture
def line() -> Iterator[Line]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield Line(Connection(near), far)


JSON = b'{"status": "claimed"}'
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n" + JSON
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"7\r\n%b\r\nE;a=b\r\n%b\r\n0\r\n" % (
    JSON[:7],
    JSON[7:],
)
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n" + JSON

GOOD = {
    "a length": (SIZED, False),
    "chunks": (CHUNKED + b"\r\n", False),
    "headers after chunks": (CHUNKED + b"Server-Timing: x\r\nAge: 1\r\n\r\n", False),
    "the end of the connection": (ENDLESS, True),
    "announced as the last": (SIZED.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"), True),
    "an old server": (SIZED.replace(b"HTTP/1.1", b"HTTP/1.0"), True),
    "an old server, until the end": (ENDLESS.replace(b"HTTP/1.1", b"HTTP/1.0"), True),
    "no reason phrase": (SIZED.replace(b" OK", b""), False),
    "interim responses": (
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + SIZED,
        False,
    ),
    "other spaces": (SIZED.replace(b": 21", b":\t 21 "), False),
}


@pytest.mark.parametrize(("data", "is_last"), GOOD.values(), ids=GOOD)
def test_a_response_in_single_bytes(data: bytes, is_last: bool, line: Line) -> None:
    line.write(*(data[at : at + 1] for at in range(len(data))))
    response = line.ask()
    assert (response.status, response.read(), response.is_last) == (200, JSON, is_last)
    assert line.far.recv(1_000) == REQUEST


@pytest.mark.parametrize("status", [204, 304])
def test_a_response_without_a_body_is_complete(status: int, line: Line) -> None:
    line.far.sendall(b"HTTP/1.1 %d Nothing\r\nContent-Length: 21\r\nRetry-After: 3\r\n\r\n" % status)
    response = line.ask()
    assert (response.status, response.read(), response.is_last) == (status, b"", False)
    assert response.headers["retry-after"] == "3"


def test_one_response_after_the_other(line: Line) -> None:
    for data in (SIZED, CHUNKED + b"\r\n", SIZED):
        line.far.sendall(data)
        assert line.ask().read() == JSON
        assert not line.near.has_ended()
    line.far.sendall(SIZED + b"H")
    assert line.ask().read() == JSON
    assert line.near.has_ended(), "unsolicited bytes are not a response to the next request"


BAD = {
    "nothing": b"",
    "half a head": SIZED[:30],
    "half a body": SIZED[:-1],
    "half a chunk": CHUNKED[:70],
    "no last chunk": CHUNKED[:-3],
    "no end after the last chunk": CHUNKED,
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "another version": SIZED.replace(b"HTTP/1.1", b"HTTP/2.0"),
    "no status": SIZED.replace(b"200", b"20"),
    "a long status": SIZED.replace(b"200", b"2000"),
    "an invalid length": SIZED.replace(b"21", b"all"),
    "an invalid chunk size": CHUNKED.replace(b"7\r\n", b"G\r\n"),
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * MAX_HEAD_BYTES,
    "a line without end": CHUNKED.replace(b"7\r\n", b"7;" + b"a" * 4 * MAX_HEAD_BYTES),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_malformed_responses_are_connection_errors(data: bytes, line: Line) -> None:
    line.write(data)
    with pytest.raises(ConnectionError):
        line.ask().read()


def test_a_silent_server_times_out(line: Line) -> None:
    for data in (b"", SIZED[:30], CHUNKED[:70]):
        line.far.sendall(data)
        with pytest.raises(TimeoutError):
            line.near.ask(REQUEST, 0.01).read()


def test_memory_is_used_for_received_bytes_only(line: Line) -> None:
    line.write(SIZED.replace(b"21", b"9" * 15))
    with pytest.raises(ConnectionError):
        line.ask().read()


names = st.text("abcdefgXYZ-", min_size=1).map(str.encode)
values = st.text("abc XYZ,;=/09\xe4", max_size=30).map(lambda value: value.strip().encode("latin-1"))


@given(
    status=st.integers(200, 599).filter(lambda status: status not in {204, 304}),  # responses without a body
    headers=st.dictionaries(names.map(lambda name: b"X-" + name.lower()), values),
    chunks=st.lists(st.binary(min_size=1, max_size=100)),
    is_chunked=st.booleans(),
    cuts=st.sets(st.integers(1, 400)),
)
def test_it_reads_the_same_as_the_standard_library(
    *, status: int, headers: dict[bytes, bytes], chunks: list[bytes], is_chunked: bool, cuts: set[int]
) -> None:
    body = b"".join(chunks)
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n" if is_chunked else body
    framing = b"Transfer-Encoding: Chunked" if is_chunked else b"Content-Length: %d" % len(body)
    fields = b"".join(b"%b: %b\r\n" % field for field in headers.items())
    data = b"HTTP/1.1 %d Whatever\r\n%b%b\r\n\r\n%b" % (status, fields, framing, framed)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})

    theirs, other = socket.socketpair()
    with theirs, other:
        other.sendall(data)
        expected = http.client.HTTPResponse(theirs)
        expected.begin()
        expected_headers = {name.lower(): value.lower() for name, value in expected.getheaders()}
        read = expected.read()
    response = Response(_Pieces([data[one:two] for one, two in pairwise(places)]))
    assert (response.status, response.headers, response.read()) == (status, expected_headers, read)
    assert response.is_last == expected.will_close


class _Pieces(Connection):
    """Data that arrives in these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._came = b""
        self.socket = type("Socket", (), {"recv": lambda _self, _most: pieces.pop(0)})()
