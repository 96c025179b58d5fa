"""A connection, byte by byte and without a socket: what it reads when, its responses, and when it ends."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from octostore.server.app import App
from octostore.server.connections import Connections
from octostore.server.http import ClientDisconnected, Request, Response
from octostore.server.metrics import Metrics
from octostore.server.protocol import PARSE_CHUNK_BYTES, READ_AHEAD_MAX_BYTES, Connection
from octostore.server.services import Services
from octostore.server.settings import Settings
from octostore.server.streams import EventStream

HOST = b"Host: localhost\r\n"
GET = b"GET /%d HTTP/1.1\r\n" + HOST + b"\r\n"
IDLE_SECONDS, REQUEST_SECONDS, WRITE_SECONDS = 7, 3, 11


class Transport(asyncio.Transport):
    """What a client gets from a connection, and whether the server reads from it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_aborted = self._is_closing = False
        self._is_paused = False
        self.address: str | None = "192.0.2.7"

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Like uvloop: asks the system each time, which knows no address of a disconnected client."""
        if name != "peername":
            return default
        if self.address is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return (self.address, 4_711)

    def write(self, data: Any) -> None:
        assert not self._is_closing
        self.written += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = self.is_aborted = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert (high, low) == (0, None), "all buffered data must count for the write timeout"

    def pause_reading(self) -> None:
        assert not self._is_paused
        self._is_paused = True

    def resume_reading(self) -> None:
        assert self._is_paused
        self._is_paused = False

    def is_reading(self) -> bool:
        return not self._is_paused


class Client:
    """One client, and an application whose handler the test sets."""

    def __init__(self, handle: Callable[[Request], Awaitable[None]]) -> None:
        settings = Settings(
            idle_seconds=IDLE_SECONDS,
            request_seconds=REQUEST_SECONDS,
            write_seconds=WRITE_SECONDS,
            max_body_bytes=100,
        )
        self.all = Connections(settings, self._respond)
        self._handle = handle
        self.transport = Transport()
        self.connection: Connection = self.all.accept()
        self.connection.connection_made(self.transport)
        self.paths: list[str] = []

    async def _respond(self, request: Request) -> None:
        self.paths.append(request.raw_path)
        try:
            await self._handle(request)
        finally:
            request.close()

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.connection.data_received(part)
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def statuses(self) -> list[int]:
        parts = self.transport.written.split(b"HTTP/1.1 ")
        return [int(part[:3]) for part in parts[1:]]

    def has_time_until(self, seconds: float) -> bool:
        return self.connection.deadline == pytest.approx(self.all.loop.time() + seconds, abs=0.5)

    def must_read_within(self, seconds: float) -> bool:
        return self.all.write_blocked[self.connection] == pytest.approx(self.all.loop.time() + seconds, abs=0.5)

    def has_all_the_time(self) -> bool:
        return self.connection.deadline > self.all.loop.time() + 1_000_000


async def echo(request: Request) -> None:
    body = await request.body(100)
    request.send(Response(request.raw_path.encode() + b"=" + body, content_type=b"text/plain"))


def with_client(test: Callable[[Client], Awaitable[None]], handle: Callable[[Request], Awaitable[None]] = echo) -> None:
    async def run() -> None:
        await test(Client(handle))

    asyncio.run(run())


class Gate:
    """A handler that waits for the test."""

    def __init__(self, *, reads_body: bool = False, watches: bool = False) -> None:
        self._open = asyncio.Event()
        self._reads_body = reads_body
        self._watches = watches
        self.was_left = False

    async def __call__(self, request: Request) -> None:
        gone = request.disconnected() if self._watches else asyncio.get_running_loop().create_future()
        opened = asyncio.ensure_future(self._open.wait())
        await asyncio.wait((gone, opened), return_when=asyncio.FIRST_COMPLETED)
        opened.cancel()
        if gone.done():
            self.was_left = True
        elif self._reads_body:
            await echo(request)
        else:
            request.send(Response(b"no", 401))

    def open(self) -> None:
        self._open.set()


# Reading in pieces


def test_a_request_may_arrive_byte_by_byte() -> None:
    async def test(client: Client) -> None:
        request = (
            b"POST /a HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nTrailer: x\r\n\r\n"
        )
        await client.send(*(bytes([byte]) for byte in request), *(bytes([byte]) for byte in GET % 2))
        assert client.statuses == [200, 200]
        assert b"\r\n\r\n/a={}" in client.transport.written
        assert client.has_time_until(IDLE_SECONDS)

    with_client(test)


def test_responses_come_one_by_one_in_the_order_of_requests() -> None:
    async def test(client: Client) -> None:
        await client.send(b"".join(GET % number for number in range(5)))
        assert client.paths == [f"/{number}" for number in range(5)]
        positions = [client.transport.written.index(b"/%d=" % number) for number in range(5)]
        assert positions == sorted(positions)
        assert client.transport.is_reading()

    with_client(test)


def test_reading_pauses_while_a_request_waits_for_its_turn() -> None:
    async def test(client: Client) -> None:
        gate = Gate()
        client._handle = gate
        await client.send(GET % 1)
        assert client.transport.is_reading(), "to notice a disconnect"
        assert client.has_all_the_time(), "no timeout while the client waits"
        await client.send(GET % 2 + b"GET /3 HT")
        assert not client.transport.is_reading()
        assert client.has_all_the_time(), "no timeout while reading is paused"
        gate.open()
        await client.send()
        assert client.statuses == [401, 401]
        assert client.transport.is_reading()
        assert client.has_time_until(REQUEST_SECONDS)

    with_client(test)


def test_reading_continues_while_a_handler_watches_for_a_disconnect() -> None:
    async def test(client: Client) -> None:
        gate = Gate(watches=True)
        client._handle = gate
        await client.send(GET % 1 + GET % 2 + b"GET /3 HT", b"TP/1.1\r\n" + HOST + b"\r\n")
        assert client.transport.is_reading()
        assert client.has_all_the_time()
        gate.open()
        await client.send()
        assert (client.paths, client.statuses) == (["/1", "/2", "/3"], [401, 401, 401])
        assert client.has_time_until(IDLE_SECONDS)

    with_client(test)


@pytest.mark.parametrize("end", [b"", b"Connection: close\r\n"], ids=["requests", "ignored data"])
def test_a_watched_client_that_sends_more_than_we_buffer_is_cut_off(end: bytes) -> None:
    async def test(client: Client) -> None:
        client._handle = Gate(watches=True)
        await client.send(b"GET /1 HTTP/1.1\r\n" + end + HOST + b"\r\n")
        ahead = GET % 2 * (READ_AHEAD_MAX_BYTES // len(GET))
        await client.send(ahead[:READ_AHEAD_MAX_BYTES])
        assert not client.transport.is_closing()
        await client.send(ahead)
        assert client.transport.is_aborted

    with_client(test)


def test_a_client_that_does_not_read_gets_no_more_responses() -> None:
    async def test(client: Client) -> None:
        client.connection.pause_writing()
        await client.send(GET % 1, GET % 2)
        assert client.paths == []
        assert not client.transport.is_reading()
        client.connection.resume_writing()
        await client.send()
        assert client.statuses == [200, 200]

    with_client(test)


def test_a_client_that_does_not_read_is_cut_off_even_in_the_middle_of_a_request() -> None:
    async def test(client: Client) -> None:
        client.connection.pause_writing()
        await client.send(GET % 1 + GET % 2 + b"GET /x")
        assert client.must_read_within(WRITE_SECONDS)

    with_client(test)


def test_a_client_that_stops_reading_is_cut_off_even_in_the_middle_of_a_request() -> None:
    async def handle(request: Request) -> None:
        request.send(Response(b"yes"))
        clients[0].connection.pause_writing()

    async def test(client: Client) -> None:
        clients.append(client)
        await client.send(GET % 1 + GET % 2 + GET % 3 + b"GET /x")
        assert client.statuses == [200]
        assert client.must_read_within(WRITE_SECONDS)

    clients: list[Client] = []
    with_client(test, handle)


def test_pipelined_data_is_parsed_only_as_requests_are_handled() -> None:
    async def test(client: Client) -> None:
        gate = Gate()
        client._handle = gate
        await client.send(b"".join(GET % number for number in range(1_000)))
        assert len(client.connection._waiting) < PARSE_CHUNK_BYTES / len(GET)
        assert not client.transport.is_reading()
        gate.open()
        while len(client.paths) < 1_000:
            await client.send()
        await client.send()
        assert client.paths == [f"/{number}" for number in range(1_000)]
        assert client.transport.written.count(b"HTTP/1.1 401 ") == 1_000
        assert client.transport.is_reading()

    with_client(test)


@pytest.mark.parametrize("size", [PARSE_CHUNK_BYTES, 100 * PARSE_CHUNK_BYTES])
def test_a_large_body_in_one_piece_is_complete_when_its_request_is_handled(size: int) -> None:
    async def handle(request: Request) -> None:
        request.send(Response(str(len(request.complete_body(size))).encode()))

    async def test(client: Client) -> None:
        await client.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % size + b"x" * size + GET % 2)
        assert client.paths == ["/a", "/2"]
        assert b"\r\n\r\n%d" % size in client.transport.written
        assert client.transport.is_reading()

    with_client(test, handle)


def test_the_rest_of_a_head_is_read_once_earlier_requests_are_handled() -> None:
    async def test(client: Client) -> None:
        gate = Gate()
        client._handle = gate
        requests = b"".join(GET % number for number in range(1_000))
        await client.send(requests + b"GET /last HT")
        assert not client.transport.is_reading()
        gate.open()
        while not client.transport.is_reading():
            await client.send()
        assert client.has_time_until(REQUEST_SECONDS)
        await client.send(b"TP/1.1\r\n" + HOST + b"\r\n")
        assert (len(client.paths), client.paths[-1]) == (1_001, "/last")

    with_client(test)


# Malformed requests


GARBAGE = [b"\x00\x01nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"POST / HTTP/1.1\r\n" + HOST]
GARBAGE[2] += b"Transfer-Encoding: chunked\r\n\r\nx\r\n"


@pytest.mark.parametrize("garbage", GARBAGE, ids=["no head", "a refused head", "a broken body"])
@pytest.mark.parametrize("is_one_piece", [True, False])
def test_requests_before_garbage_get_responses_and_so_does_the_garbage(garbage: bytes, is_one_piece: bool) -> None:
    async def test(client: Client) -> None:
        gate = Gate()
        client._handle = gate
        sent = GET % 1 + GET % 2 + garbage + GET % 3
        await client.send(*([sent] if is_one_piece else [sent[:100], sent[100:]]))
        assert not client.transport.is_closing()
        assert not client.transport.is_reading(), "more garbage would only waste time"
        assert client.has_all_the_time()
        gate.open()
        await client.send()
        assert (client.paths, client.statuses) == (["/1", "/2"], [401, 401, 400])
        assert client.transport.is_closing()

    with_client(test)


def test_a_slow_request_gets_its_response_although_the_next_one_times_out() -> None:
    async def test(client: Client) -> None:
        gate = Gate()
        client._handle = gate
        await client.send(GET % 1, b"GET /2 HT")
        assert client.has_time_until(REQUEST_SECONDS)
        client.connection.deadline = 0
        for _ in range(2):
            client.all.tick()
            assert not client.transport.is_closing()
        gate.open()
        await client.send()
        assert client.statuses == [401, 408]
        assert client.transport.is_closing()

    with_client(test)


def test_data_after_the_last_request_is_not_read() -> None:
    async def test(client: Client) -> None:
        gate = Gate()
        client._handle = gate
        await client.send(b"GET /1 HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n")
        assert client.transport.is_reading(), "to notice a disconnect"
        await client.send(b"more", b"and more")
        assert not client.transport.is_reading()
        gate.open()
        await client.send()
        assert client.statuses == [401]

    with_client(test)


# Bodies


def test_a_body_is_not_read_before_the_handler_wants_it() -> None:
    async def test(client: Client) -> None:
        gate = Gate(reads_body=True)
        client._handle = gate
        await client.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\n")
        assert client.transport.is_reading()
        await client.send(b"12345")
        assert not client.transport.is_reading()
        gate.open()
        await client.send()
        assert client.transport.is_reading()
        assert client.has_time_until(REQUEST_SECONDS)
        await client.send(b"67890")
        assert client.transport.written.endswith(b"/a=1234567890")

    with_client(test)


@pytest.mark.parametrize("is_refused", [False, True])
def test_the_time_limit_of_a_body_is_the_same_when_the_head_came_in_pieces(is_refused: bool) -> None:
    async def refuse(request: Request) -> None:
        request.send(Response(b"no", 401))

    async def test(client: Client) -> None:
        await client.send(b"POST /a HTTP/1.1\r\n", HOST + b"Content-Length: 10\r\n\r\n")
        assert client.has_time_until(REQUEST_SECONDS)

    with_client(test, refuse if is_refused else echo)


def test_an_unwanted_body_is_dropped_as_it_arrives() -> None:
    async def test(client: Client) -> None:
        gate = Gate()
        client._handle = gate
        await client.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\n" + b"x" * 50_000)
        (request,) = client.all.in_progress
        gate.open()
        await client.send()
        assert (client.statuses, client.transport.is_reading()) == ([401], True)
        assert client.has_time_until(REQUEST_SECONDS)
        await client.send(b"x" * 50_000)
        assert len(request._body) == 50_000, "only what arrived before the refusal"
        assert client.has_time_until(IDLE_SECONDS)
        await client.send(GET % 2)
        assert client.statuses == [401, 401]

    with_client(test)


def test_no_more_of_a_body_is_kept_than_the_limit() -> None:
    async def handle(request: Request) -> None:
        try:
            await request.body(10)
        except Exception:  # noqa: BLE001  # any error will do
            request.send(Response(b"", 413))

    async def test(client: Client) -> None:
        await client.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        (request,) = client.all.in_progress
        await client.send(*[b"4\r\nabcd\r\n"] * 25, b"0\r\n\r\n", GET % 2)
        assert len(request._body) == 12
        assert client.statuses == [413, 200]

    async def only_first(request: Request) -> None:
        await (handle if request.raw_path == "/a" else echo)(request)

    with_client(test, only_first)


@pytest.mark.parametrize("body", [b"", b"{}"], ids=["waits for 100", "does not wait"])
def test_100_continue_is_sent_when_the_handler_wants_the_body(body: bytes) -> None:
    async def test(client: Client) -> None:
        head = b"POST /a HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        await client.send(head + body)
        assert client.statuses == ([200] if body else [100])
        if not body:
            await client.send(b"{}")
            assert client.statuses == [100, 200]
        assert client.transport.written.endswith(b"/a={}")
        assert not client.transport.is_closing()

    with_client(test)


def test_a_connection_closes_after_a_refusal_without_100_continue() -> None:
    async def test(client: Client) -> None:
        gate = Gate()
        gate.open()
        client._handle = gate
        await client.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert client.statuses == [401]
        assert b"\r\nconnection: close\r\n" in client.transport.written
        assert client.transport.is_closing()

    with_client(test)


# Closing


@pytest.mark.parametrize(
    "head",
    [
        b"GET /1 HTTP/1.1\r\nConnection: close\r\n",
        b"GET /1 HTTP/1.0\r\n",
        b"GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n",
        b"GET /1 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n",
    ],
    ids=["close", "1.0", "1.0, keep-alive", "another protocol"],
)
def test_some_requests_end_the_connection_and_later_data_is_ignored(head: bytes) -> None:
    async def test(client: Client) -> None:
        gate = Gate()
        client._handle = gate
        await client.send(head + HOST + b"\r\n" + GET % 2)
        await client.send(b"\x00nonsense", GET % 3)
        assert not client.transport.is_closing(), "the response is still pending"
        gate.open()
        await client.send()
        assert (client.paths, client.statuses) == (["/1"], [401])
        assert b"\r\nconnection: close\r\n" in client.transport.written
        assert client.transport.is_closing()

    with_client(test)


@pytest.mark.parametrize("length", [b"Content-Length: 25", b"Transfer-Encoding: chunked"])
def test_an_upgrade_request_with_a_body_is_refused_so_that_the_body_is_not_taken_for_a_request(length: bytes) -> None:
    async def test(client: Client) -> None:
        head = b"POST /1 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" + HOST + length + b"\r\n\r\n"
        await client.send(head + GET % 2)
        assert (client.paths, client.statuses) == ([], [400])
        assert client.transport.is_closing()

    with_client(test)


def test_a_stop_waits_for_the_current_response_only() -> None:
    async def test(client: Client) -> None:
        gate = Gate()
        client._handle = gate
        idle = Client(gate)
        await client.send(GET % 1 + GET % 2)
        ending = asyncio.create_task(client.all.end())
        idle.connection.close_when_idle()
        assert idle.transport.is_closing()
        await client.send()
        assert not client.transport.is_closing()
        gate.open()
        await client.send()
        assert (client.paths, client.statuses) == (["/1"], [401])
        assert b"\r\nconnection: close\r\n" in client.transport.written
        assert not ending.done()
        client.connection.connection_lost(None)
        await ending

    with_client(test)


def test_a_stop_does_not_wait_for_a_request_that_was_cut_off_before_it_started() -> None:
    async def test(client: Client) -> None:
        client.connection.data_received(GET % 1)
        client.all.abort()
        client.connection.connection_lost(None)
        await asyncio.wait_for(client.all.end(), 1)

    with_client(test)


def test_no_request_is_handled_once_the_connection_closes() -> None:
    async def test(client: Client) -> None:
        client.connection.pause_writing()
        await client.send(GET % 1)
        client.connection.close_when_idle()
        client.connection.resume_writing()
        await client.send()
        assert (client.paths, client.transport.is_closing()) == ([], True)

    with_client(test)


def test_a_disconnect_is_noticed_at_once() -> None:
    async def test(client: Client) -> None:
        gate = Gate(watches=True)
        client._handle = gate
        await client.send(GET % 1 + GET % 2)
        client.transport.close()
        client.connection.connection_lost(None)
        await client.send()
        assert gate.was_left
        assert client.paths == ["/1"], "the second one is dropped"
        assert not client.all.in_progress
        assert not client.all.open

    with_client(test)


def test_the_address_of_a_client_is_known_after_it_disconnected() -> None:
    addresses: list[str] = []

    async def handle(request: Request) -> None:
        await request.disconnected()
        addresses.append(request.client_address)

    async def test(client: Client) -> None:
        await client.send(GET % 1)
        client.transport.address = None
        client.connection.connection_lost(None)
        await client.send()
        assert addresses == ["192.0.2.7"]
        too_late = client.all.accept()
        too_late.connection_made(client.transport)
        assert too_late.peer_address == "gone"

    with_client(test, handle)


def test_a_client_that_disconnects_in_the_middle_of_its_request() -> None:
    gone: list[Exception] = []

    async def handle(request: Request) -> None:
        try:
            await request.body(100)
        except ClientDisconnected as error:
            gone.append(error)

    async def test(client: Client) -> None:
        await client.send(b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\n12")
        client.transport.close()
        client.connection.connection_lost(None)
        await client.send()
        assert len(gone) == 1

    with_client(test, handle)


def test_a_client_that_does_not_read_the_last_response_is_cut_off_in_the_end() -> None:
    async def test(client: Client) -> None:
        await client.send(b"GET /1 HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n")
        client.connection.pause_writing()
        assert client.transport.is_closing()
        assert not client.transport.is_aborted
        assert client.must_read_within(WRITE_SECONDS)
        client.all.write_blocked[client.connection] = client.all.loop.time()
        client.all.tick()
        assert client.transport.is_aborted

    with_client(test)


def test_a_slow_reader_is_not_idle() -> None:
    async def test(client: Client) -> None:
        await client.send(GET % 1)
        client.connection.pause_writing()
        client.connection.on_deadline()
        assert not client.transport.is_closing()
        client.connection.resume_writing()
        assert client.has_time_until(IDLE_SECONDS)
        assert not client.all.write_blocked

    with_client(test)


def test_the_shared_clock_notices_a_passed_deadline() -> None:
    async def test(client: Client) -> None:
        await client.send(b"GET / HT")
        client.connection.deadline = client.all.loop.time()
        client.all.tick()
        assert client.statuses == [408]
        assert client.transport.is_closing()

    with_client(test)


# Streams


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_stream_is_chunked_for_clients_that_support_it(version: bytes) -> None:
    async def frames() -> Any:
        yield b"data: 1\n\n"

    async def handle(request: Request) -> None:
        await EventStream(request, frames(), nullcontext()).run()

    async def test(client: Client) -> None:
        await client.send(b"GET /events HTTP/" + version + b"\r\n" + HOST + b"\r\n")
        head, _, body = client.transport.written.partition(b"\r\n\r\n")
        if version == b"1.0":
            assert b"chunked" not in head
            assert body == b"retry: 1000\n\ndata: 1\n\n"
        else:
            assert b"\r\ntransfer-encoding: chunked\r\n" in head
            assert body == b"d\r\nretry: 1000\n\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n"
        assert client.transport.is_closing() == (version == b"1.0")

    with_client(test, handle)


def test_a_stream_pauses_while_its_client_does_not_read_and_ends_with_the_connection() -> None:
    async def frames() -> Any:
        while True:
            yield b"data: 1\n\n"
            await asyncio.sleep(0)

    async def handle(request: Request) -> None:
        await EventStream(request, frames(), nullcontext()).run()

    async def test(client: Client) -> None:
        await client.send(b"GET /events HTTP/1.1\r\n" + HOST + b"\r\n")
        client.connection.pause_writing()
        await client.send()
        written = len(client.transport.written)
        await client.send()
        assert len(client.transport.written) == written
        client.connection.resume_writing()
        await client.send()
        assert len(client.transport.written) > written
        client.connection.pause_writing()
        assert client.must_read_within(WRITE_SECONDS)
        client.connection.connection_lost(None)
        await asyncio.wait(client.all.in_progress.values())

    with_client(test, handle)


def test_many_immediate_responses_may_follow_one_that_waits() -> None:
    """Immediate responses must not pile up on the stack."""

    async def run() -> None:
        opened = asyncio.Event()

        async def wait(request: Request) -> None:
            await opened.wait()
            respond(request)

        def respond(request: Request) -> None:
            request.send(Response(b"", 200))
            request.close()

        connections = Connections(Settings(), lambda r: wait(r) if r.raw_path == "/0" else respond(r))
        connection, transport = connections.accept(), Transport()
        connection.connection_made(transport)
        connection.data_received(b"".join(GET % number for number in range(3_000)))
        assert (transport.written, transport.is_reading()) == (b"", False)
        opened.set()
        await asyncio.wait(connections.in_progress.values())
        assert transport.written.count(b"HTTP/1.1 200 OK") == 3_000
        assert transport.is_reading()

    asyncio.run(run())


def test_a_response_that_fails_halfway_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, request: Request) -> None:
            self._request = request

        async def run(self) -> None:
            self._request.begin(b"text/plain", ())
            await self._request.send_part(b"a part")
            raise ZeroDivisionError

    async def run() -> None:
        app = App(cast("Services", SimpleNamespace(settings=Settings(), metrics=Metrics())))

        async def handle(request: Request) -> Broken:
            return Broken(request)

        monkeypatch.setattr(app, "_begin", handle)
        connections = Connections(Settings(), app.handle_request)
        connection, transport = connections.accept(), Transport()
        connection.connection_made(transport)
        connection.data_received(GET % 1)
        await asyncio.wait(connections.in_progress.values())
        assert transport.is_aborted
        assert transport.written.endswith(b"\r\n\r\n6\r\na part\r\n")

    asyncio.run(run())
