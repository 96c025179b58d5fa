"""Requests whose header lines were parsed before are read without the parser, and read exactly as it would."""

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.server.connections import Connections
from octostore.server.http import Request, Response
from octostore.server.known_heads import MAX_HEAD_BYTES, MAX_HEADS, KnownHeads
from octostore.server.settings import Settings
from tests.server.test_protocol import Transport

CLAIM = b'POST /jobs/%b/claim HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n{"owner":"ann"}'


@dataclass
class Server:
    """Keeps what its clients asked for."""

    heads: KnownHeads = field(default_factory=lambda: KnownHeads(10_000))
    requests: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.all = Connections(Settings(max_body_bytes=100), self._take)
        self.all.known_heads = self.heads

    def connect(self) -> "Client":
        transport = Transport()
        connection = self.all.accept()
        connection.connection_made(transport)
        return Client(connection, transport)

    def _take(self, request: Request) -> None:
        """Bodies are read only if they arrived with the request, as in the pipeline's fast path."""
        body = request.complete_body(100) if request.is_received else None
        seen = request.method, request.raw_path, request.raw_query, request.headers, body, request.keeps_alive
        self.requests.append((*seen, request.has_chunks, request.expects_continue))
        request.send(Response(b"yes"))
        request.close()


@dataclass
class Client:
    connection: Any
    transport: Transport

    def receive(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.connection.data_received(data)

    @property
    def responses(self) -> bytes:
        return re.sub(rb"req_[0-9a-f]{32}", b"req_", self.transport.written)


METHODS = st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT", b"get", b"G\x00T"])
TARGETS = st.sampled_from(
    [
        b"/jobs/a/claim",
        b"/jobs/b%2Fc",
        b"/",
        b"//jobs/a",
        b"/jobs//a",
        b"/a?b=c",
        b"/a#b",
        b"*",
        b"http://x/a",
        b"/\xff",
    ]
)
VERSIONS = st.sampled_from([b"HTTP/1.1"] * 4 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.1 ", b"http/1.1", b""])
ENDS = st.sampled_from([b"\r\n"] * 8 + [b"\n", b"\r", b"\r\r\n", b"\n\r\n"])
FIELDS = st.sampled_from(
    [
        b"Host: localhost",
        b"Content-Length: 4",
        b"Content-Length: 0",
        b"content-length:4",
        b"Content-Length: 04",
        b"Content-Length: +4",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        b"Connection: keep-alive",
        b"Connection: upgrade\r\nUpgrade: h2c",
        b"Expect: 100-continue",
        b"X-Folded: one\r\n two",
        b"X-Bare: one\ntwo: three",
        b"Cookie: a=b",
        b"X-Odd: \x80\xff",
        b"X-Nul: \x00",
        b": nameless",
        b"no colon",
    ]
)
BODIES = st.sampled_from([b"", b"four", b"\r\n\r\n", b"fours", b"GET ", b"4\r\nfour\r\n0\r\n\r\n"])


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    line = b" ".join((draw(METHODS), draw(TARGETS), draw(VERSIONS)))
    end = draw(ENDS)
    lines = [line, *draw(st.lists(FIELDS, max_size=4))]
    return end.join(lines) + draw(st.sampled_from([end + end, end, b""])) + draw(BODIES)


USUAL = CLAIM % b"a"
SENT = st.lists(st.one_of(messages(), st.just(USUAL), st.just(CLAIM % b"b")), min_size=1, max_size=4)
"""What clients send: each message arrives as one piece, on the same connection or on a new one."""


@given(
    sent=st.lists(st.tuples(st.booleans(), SENT.map(b"".join) | SENT.map(lambda several: several[0])), max_size=6),
    again=st.integers(1, 3),
)
def test_known_heads_change_nothing_but_the_cost(sent: list[tuple[bool, bytes]], again: int) -> None:
    async def run(heads: KnownHeads) -> tuple[list[tuple[Any, ...]], list[tuple[bytes, bool]]]:
        server = Server(heads)
        clients = [server.connect()]
        for on_new, data in sent * again:
            if on_new or clients[-1].transport.is_closing():
                clients.append(server.connect())
            clients[-1].receive(data)
        return server.requests, [(client.responses, client.transport.is_closing()) for client in clients]

    assert asyncio.run(run(KnownHeads(10_000))) == asyncio.run(run(KnownHeads(0)))


def known(*parsed: bytes) -> KnownHeads:
    async def run() -> KnownHeads:
        server = Server()
        for data in parsed:
            server.connect().receive(data)
        return server.heads

    return asyncio.run(run())


def test_a_known_head_serves_other_requests_of_every_connection() -> None:
    async def run() -> None:
        server = Server()
        server.connect().receive(CLAIM % b"a")
        client = server.connect()
        del client.connection._parser
        client.receive(CLAIM % b"b")
        client.connection._parser = None  # for the end of the test
        assert [request[1] for request in server.requests] == ["/jobs/a/claim", "/jobs/b/claim"]
        assert server.requests[0][3:] == server.requests[1][3:]

    asyncio.run(run())


@pytest.mark.parametrize(
    "data",
    [
        USUAL[:-1],
        USUAL + b" ",
        USUAL + USUAL,
        USUAL[: USUAL.index(b"\r\n\r\n")],
        USUAL[: USUAL.index(b"\r\n\r\n") + 2],
        USUAL.replace(b"HTTP/1.1", b"HTTP/1.0"),
        USUAL.replace(b"localhost", b"Localhost"),
        USUAL.replace(b"/jobs/a", b"/jobs//a"),
        USUAL.replace(b"/jobs/a", b"/jobs/a?b=c"),
        USUAL.replace(b"POST", b"PATCH"),
        b"\r\n" + USUAL,
    ],
)
def test_anything_else_is_left_to_the_parser(data: bytes) -> None:
    heads = known(USUAL)
    assert heads.read(USUAL) is not None
    assert heads.read(data) is None


@pytest.mark.parametrize(
    "line",
    [
        b"Transfer-Encoding: chunked",
        b"Expect: 100-continue",
        b"Connection: close",
        b"X-Bare: a\nb: c",
        b"X-Fold: a\r\n b",
    ],
)
def test_heads_that_need_the_parser_are_not_remembered(line: bytes) -> None:
    data = b"POST /a HTTP/1.1\r\nHost: localhost\r\n%b\r\n\r\n" % line
    assert known(data).read(data) is None


def test_a_request_that_came_in_pieces_is_not_remembered() -> None:
    async def run() -> None:
        server = Server()
        client = server.connect()
        for piece in (USUAL[:30], USUAL[30:]):
            client.receive(piece)
        assert len(server.requests) == 1
        assert server.heads.read(USUAL) is None

    asyncio.run(run())


def test_limits_hold_for_known_heads() -> None:
    long = b"x" * MAX_HEAD_BYTES
    heads = known(USUAL)
    assert heads.read(CLAIM % long) is None
    assert known(CLAIM.replace(b"localhost", b"localhost\r\nX-Long: " + long) % b"a")._heads == {}
    many = [USUAL.replace(b"localhost", b"localhost:%d" % port) for port in range(1, 2 * MAX_HEADS)]
    assert 0 < len(known(*many)._heads) <= MAX_HEADS
