"""Requests whose header lines were parsed before are read without the parser, and read exactly as it would."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from re import sub
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octostore.server.connections import Connections
from octostore.server.http import Request, RequestHeaders, Response
from octostore.server.known_heads import MAX_HEAD_BYTES, MAX_HEADS, KnownHeads, WholeRequest
from octostore.server.protocol import NEVER, Connection
from octostore.server.settings import Settings
from tests.server.test_protocol import Transport

CLAIM = b'POST /jobs/%b/claim HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n{"owner":"ann"}'
USUAL = CLAIM % b"a"
HEAD, _, BODY = USUAL.partition(b"\r\n\r\n")


class CountingHeads(KnownHeads):
    hits = 0

    def read(self, data: bytes) -> WholeRequest | None:
        whole = super().read(data)
        self.hits += whole is not None
        return whole


@dataclass
class Client:
    connection: Connection
    transport: Transport

    def receive(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.connection.data_received(data)

    @property
    def state(self) -> tuple[Any, ...]:
        responses = sub(rb"req_[0-9a-f]{32}", b"req_", self.transport.written)
        has_time_limit = self.connection.deadline != NEVER
        return responses, self.transport.is_closing(), self.transport.is_reading(), has_time_limit


@dataclass
class Server:
    """Keeps what its clients asked for. While `is_slow`, they get their responses only from `respond`."""

    heads: KnownHeads = field(default_factory=lambda: KnownHeads(10_000))
    requests: list[tuple[Any, ...]] = field(default_factory=list)
    is_slow: bool = False

    def __post_init__(self) -> None:
        self.all = Connections(Settings(max_body_bytes=100), self._take)
        self.all.known_heads = self.heads
        self._held: list[Request] = []

    def connect(self) -> Client:
        transport = Transport()
        connection = self.all.accept()
        connection.connection_made(transport)
        return Client(connection, transport)

    def _take(self, request: Request) -> None:
        body = request.complete_body(100) if request.is_received else None
        seen = request.method, request.raw_path, request.raw_query, dict(request.headers), body, request.keeps_alive
        self.requests.append((*seen, request.has_chunks, request.expects_continue))
        self._held.append(request)
        if not self.is_slow:
            self.respond()

    def respond(self) -> None:
        held, self._held = self._held, []
        for request in held:
            request.send(Response(b"yes"))
            request.close()


def on_server(test: Callable[[Server], None]) -> None:
    async def run() -> None:
        test(Server())

    asyncio.run(run())


# Whatever clients send, known heads change nothing but the cost


METHODS = st.sampled_from(
    [b"GET", b"POST"] * 4 + [b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT", b"get", b"G\x00T"]
)
PLAIN = [b"/jobs/a/claim", b"/jobs/b%2Fc", b"/jobs/a:b@c", b"/livez"]
ODD = [b"/", b"//jobs/a", b"/jobs//a", b"/a?b=c", b"/a#b", b"*", b"http://x/a", b"/\xff", b"/a b", b"/.", b"/a;b"]
TARGETS = st.sampled_from(PLAIN * 4 + ODD)
VERSIONS = st.sampled_from([b"HTTP/1.1"] * 9 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.1 ", b"http/1.1", b""])
LINES = st.sampled_from([b"POST %b HTTP/1.1" % path for path in PLAIN]) | st.tuples(METHODS, TARGETS, VERSIONS).map(
    b" ".join
)
SIZED = [b"Host: localhost", b"Content-Length: 4"]
ODD_FIELDS = [
    b"Cookie: a=b",
    b"Connection: keep-alive",
    b"X-Odd: \x80\xff",
    b"Content-Length: 04",
    b"content-length:4",
    b"Content-Length: +4",
    b"Host: elsewhere",
    b"Transfer-Encoding: chunked",
    b"Connection: close",
    b"Connection: upgrade\r\nUpgrade: h2c",
    b"Expect: 100-continue",
    b"X-Folded: one\r\n two",
    b"X-Bare: one\ntwo: three",
    b"X-Nul: \x00",
    b": nameless",
]
BLOCKS = st.lists(st.sampled_from(ODD_FIELDS), max_size=1).map(lambda odd: SIZED + odd) | st.lists(
    st.sampled_from(SIZED + ODD_FIELDS), min_size=1, max_size=3
)
BODIES = st.sampled_from([b"four", b"\r\n\r\n", b"GET "] * 3 + [b"", b"fours", b"4\r\nfour\r\n0\r\n\r\n"])
LINE_ENDS = st.sampled_from([b"\r\n"] * 30 + [b"\n", b"\r", b"\r\r\n"])


class Sent(NamedTuple):
    """A request with one of the run's header blocks, in pieces of this size."""

    line: bytes
    block: int
    body: bytes
    line_end: bytes
    piece_bytes: int

    def data(self, blocks: list[list[bytes]]) -> bytes:
        fields = blocks[self.block % len(blocks)]
        return self.line_end.join([self.line, *fields, b"", self.body])


SENT = st.builds(Sent, LINES, st.integers(0, 2), BODIES, LINE_ENDS, st.sampled_from([10_000] * 12 + [1, 7, 30, 60]))
STEPS = st.lists(
    st.one_of(SENT, SENT, SENT, SENT, st.sampled_from(["connect", "slow", "respond", "block", "drain"])),
    min_size=4,
    max_size=15,
)


def play(steps: list[Any], blocks: list[list[bytes]], heads: KnownHeads) -> list[Any]:
    """Each header block is sent once in an ordinary request before the steps."""
    server = Server(heads)
    for fields in blocks:
        for body in (b"", b"four"):
            server.connect().receive(b"\r\n".join([b"POST /first HTTP/1.1", *fields, b"", body]))
    client, states = server.connect(), []
    for step in steps:
        if isinstance(step, Sent):
            data = step.data(blocks)
            for start in range(0, len(data), step.piece_bytes):
                client.receive(data[start : start + step.piece_bytes])
        elif step != "connect":
            do(step, server, client)
        states.append(client.state)
        if step == "connect" or client.transport.is_closing():
            client = server.connect()
    return [states, server.requests]


def do(step: str, server: Server, client: Client) -> None:
    match step:
        case "slow":
            server.is_slow = True
        case "respond":
            server.is_slow = False
            server.respond()
        case "block":
            client.connection.pause_writing()
        case "drain":
            client.connection.resume_writing()


def test_known_heads_change_nothing_but_the_cost() -> None:
    hits = 0

    @settings(max_examples=300)
    @given(STEPS, st.lists(BLOCKS, min_size=1, max_size=3))
    def compare(steps: list[Any], blocks: list[list[bytes]]) -> None:
        async def run() -> int:
            known = CountingHeads(10_000)
            assert play(steps, blocks, known) == play(steps, blocks, KnownHeads(0))
            return known.hits

        nonlocal hits
        hits += asyncio.run(run())

    compare()
    assert hits > 50, "it must have compared something"


# What is read without the parser, and when


def test_a_known_head_serves_other_requests_of_every_connection() -> None:
    def test(server: Server) -> None:
        server.connect().receive(CLAIM % b"a")
        client = server.connect()
        del client.connection._parser
        client.receive(CLAIM % b"b")
        assert [request[1] for request in server.requests] == ["/jobs/a/claim", "/jobs/b/claim"]
        assert server.requests[0][3:] == server.requests[1][3:]

    on_server(test)


def known(*parsed: bytes) -> KnownHeads:
    async def run() -> KnownHeads:
        server = Server()
        client = server.connect()
        for data in parsed:
            client.receive(data)
        return server.heads

    return asyncio.run(run())


@pytest.mark.parametrize(
    "data",
    [
        USUAL[:-1],
        USUAL + b" ",
        USUAL + USUAL,
        HEAD,
        HEAD + b"\r\n",
        USUAL.replace(b"HTTP/1.1", b"HTTP/1.0"),
        USUAL.replace(b"localhost", b"Localhost"),
        USUAL.replace(b"/jobs/a", b"/jobs//a"),
        USUAL.replace(b"/jobs/a", b"/jobs/a?b=c"),
        USUAL.replace(b"/jobs/a", b"/jobs/a#b"),
        USUAL.replace(b"POST", b"PATCH"),
        b"\r\n" + USUAL,
    ],
)
def test_anything_else_is_left_to_the_parser(data: bytes) -> None:
    heads = known(USUAL)
    assert heads.read(USUAL) is not None
    assert heads.read(data) is None


@pytest.mark.parametrize(
    ("begun", "path", "body"),
    [
        (b"POST /x HTTP/1.1\r\nX-Begun: ", "/x", BODY),
        (HEAD + b"\r\n\r\n{", "/jobs/a/claim", None),  # handled before its body is complete
    ],
)
def test_the_rest_of_a_head_or_body_is_not_a_new_request(begun: bytes, path: str, body: bytes | None) -> None:
    def test(server: Server) -> None:
        server.connect().receive(USUAL)
        client = server.connect()
        client.receive(begun)
        client.receive(USUAL)
        assert [(request[1], request[4]) for request in server.requests] == [("/jobs/a/claim", BODY), (path, body)]

    on_server(test)


@pytest.mark.parametrize("is_blocked", [False, True])
def test_a_request_waits_for_the_one_before_it(is_blocked: bool) -> None:
    def test(server: Server) -> None:
        server.connect().receive(USUAL)
        client = server.connect()
        if is_blocked:
            client.connection.pause_writing()
        else:
            server.is_slow = True
            client.receive(CLAIM % b"b")
        begun = len(server.requests)
        client.receive(USUAL)
        assert len(server.requests) == begun
        server.respond()
        client.connection.resume_writing()
        assert len(server.requests) == begun + 1

    on_server(test)


def test_nothing_is_read_after_the_last_request() -> None:
    def test(server: Server) -> None:
        server.connect().receive(USUAL)
        server.is_slow = True
        client = server.connect()
        client.receive(b"GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        client.receive(USUAL)
        server.respond()
        assert [request[1] for request in server.requests] == ["/jobs/a/claim", "/last"]

    on_server(test)


# What is remembered


@pytest.mark.parametrize(
    "field_line", [b"Expect: 100-continue", b"Connection: close", b"traceparent: 00-aa-bb-01", b"Idempotency-Key: 7"]
)
def test_some_heads_are_not_remembered(field_line: bytes) -> None:
    data = USUAL.replace(b"Host: localhost", b"Host: localhost\r\n" + field_line)
    assert known(data)._heads == {}


@pytest.mark.parametrize(
    "received",
    [
        {"is_received": False},
        {"received_bytes": len(BODY) - 1},
        {"keeps_alive": False},
        {"headers": RequestHeaders({b"transfer-encoding": b"chunked"})},
    ],
)
def test_only_a_whole_request_is_remembered(received: dict[str, Any]) -> None:
    usual = {"is_received": True, "received_bytes": len(BODY), "keeps_alive": True, "headers": RequestHeaders()}
    for changed, is_kept in (({}, True), (received, False)):
        heads = KnownHeads(10_000)
        heads.remember(USUAL, cast("Request", SimpleNamespace(**usual | changed)), fields=2)
        assert (heads.read(USUAL) is not None) is is_kept


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (USUAL, 1),
        (USUAL.replace(b"localhost", b"localhost\nX: y"), 3),
        (USUAL.replace(b"localhost", b"local\rhost"), 2),
        (USUAL.replace(b"localhost", b"local\r\n host"), 2),
        (USUAL.replace(b"/jobs/a", b"/jobs/a?b=c"), 2),
    ],
)
def test_a_head_with_two_readings_is_not_remembered(data: bytes, fields: int) -> None:
    """Even if the parser accepted it."""
    parsed = {"is_received": True, "received_bytes": len(BODY), "keeps_alive": True, "headers": RequestHeaders()}
    heads = KnownHeads(10_000)
    heads.remember(data, cast("Request", SimpleNamespace(**parsed)), fields)
    assert heads._heads == {}


def test_limits_hold_for_known_heads() -> None:
    long = b"x" * MAX_HEAD_BYTES
    assert known(USUAL).read(CLAIM % long) is None
    assert known(CLAIM.replace(b"localhost", b"localhost\r\nX-Long: " + long) % b"a")._heads == {}


def test_a_new_head_replaces_the_oldest() -> None:
    several = [USUAL.replace(b"localhost", b"localhost:%d" % port) for port in range(1, MAX_HEADS + 2)]
    heads = known(*several)
    assert len(heads._heads) == MAX_HEADS
    assert heads.read(several[0]) is None
    assert all(heads.read(data) for data in several[1:])
