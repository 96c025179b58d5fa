"""One connection: parses requests, writes responses, and enforces the limits on time, size and speed."""

import asyncio
import math
import select
import socket
import struct
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, cast

import httptools

from octostore.server.addresses import UNIX
from octostore.server.http import Request, RequestHeaders, Response
from octostore.server.refusals import (
    Refusal,
    hash_in_target,
    head_too_large,
    malformed,
    retry_after,
    too_slow,
    upgrade_with_body,
)

if TYPE_CHECKING:
    from octostore.server.connections import Connections

NEVER = math.inf
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
PARSE_CHUNK_BYTES = 8 * 1_024
"""Parsed requests take many times the memory of their bytes, so pipelined input is parsed in pieces of this size."""
LINGER_OFF = struct.pack("ii", 1, 0)
"""The `SO_LINGER` value that makes the system drop unsent data when the socket is closed."""
READ_AHEAD_MAX_BYTES = 256 * 1_024
"""How much a client may send ahead while we keep reading just to notice a disconnect."""
PEER_CLOSED = getattr(select, "POLLRDHUP", 0)
"""The poll event for a peer that will send no more. Without it (outside Linux), only full disconnects are noticed."""

SINGLE_HEADERS = {b"host", b"authorization", b"content-length", b"origin", b"transfer-encoding"}
"""Headers that must not repeat: a proxy in front of us might go by one value and we by the other."""


class Connection(asyncio.Protocol):
    """Handles requests one at a time, in the order they arrive."""

    def __init__(self, connections: "Connections") -> None:
        self.connections = connections
        self._settings = connections.settings
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self.peer_address = ""
        self.deadline = NEVER
        """When to call `on_deadline`."""
        self.is_write_blocked = False
        self._drained: asyncio.Future[None] | None = None
        self.origin = ""
        """The address or network under which it counts for the limit per address."""
        self._is_paused = self._ignores_input = False
        """Whether reading is paused, and whether we ignore all further input."""
        self._has_gone_quiet = self._is_watched = False
        """Whether nothing has arrived since reading was paused, and whether a handler waits for the disconnect."""
        self._unparsed = bytearray()
        self._arriving: Request | None = None
        """The request whose head has arrived and whose body is incomplete."""
        self._current: Request | None = None
        self._is_processing = False
        """Whether `_process_input` is running further up the stack."""
        self._waiting: deque[Request | Refusal] = deque()
        """Requests that arrived before the previous one got its response. A refusal is always the last."""
        self._requests_begun = 0
        self._is_in_head = False
        self._overhead_bytes = 0
        """Bytes of the current request besides its body: the head, chunk framing and trailers."""
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer_address = _peer_address(transport)  # now, because it is unavailable after a disconnect
        self._transport.set_write_buffer_limits(0)  # any unsent byte pauses us, which is timed
        self._wait_for_request()
        refusal = self.connections.enter(self)
        if refusal is not None:
            self._reject(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.connections.leave(self)
        self._waiting.clear()
        self._unparsed.clear()
        self.resume_writing()
        if self._current is not None:
            self._current.on_disconnect()
        del self._parser  # breaks the reference cycle, so the garbage collector has nothing to do

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._has_gone_quiet = False
        # No other request can be waiting then, and the parser has seen all of the last one.
        is_between_requests = self._current is None and not (
            self._is_in_head or self._arriving or self._ignores_input or self.is_write_blocked
        )
        known_heads = self.connections.known_heads
        if is_between_requests and (whole := known_heads.read(data)):
            self._handle(Request(self, whole.method, whole.path, b"", whole.headers, body=whole.body))
            return
        if self._ignores_input or self._waiting or len(data) > PARSE_CHUNK_BYTES:
            self._unparsed += data
        else:
            self._parse(data)
            if is_between_requests and self._waiting and isinstance(self._waiting[0], Request):
                known_heads.remember(data, self._waiting[0], len(self._fields))
        self._process_input()
        if self._waiting or self._unparsed or self._arriving is not None:
            self._read_or_pause()

    def pause_writing(self) -> None:
        self.is_write_blocked = True
        self.connections.write_blocked[self] = self.connections.loop.time() + self._settings.write_seconds

    def resume_writing(self) -> None:
        self.is_write_blocked = False
        self.connections.write_blocked.pop(self, None)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._process_input()

    # Called by the parser

    def on_message_begin(self) -> None:
        self._requests_begun += 1
        self._is_in_head = True
        self._overhead_bytes = 0
        self._url = b""
        self._fields = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # trailers are ignored
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        settings, parser, headers = self._settings, self._parser, RequestHeaders(self._fields)
        size = len(self._url) + sum(map(len, chain.from_iterable(self._fields)))
        if len(self._fields) > settings.max_headers or size > settings.max_head_bytes:
            raise self._head_too_large()
        if len(headers) < len(self._fields):
            headers = _merge_headers(self._fields)
        if b"transfer-encoding" in headers and not self._has_plain_chunks(headers):
            raise malformed()
        if b"#" in self._url:
            raise hash_in_target()
        url = httptools.parse_url(self._url)
        request = Request(self, parser.get_method().decode(), url.path.decode("ascii"), url.query or b"", headers)
        request.keeps_alive = parser.should_keep_alive()
        if not request.keeps_alive or b"connection" in headers:
            self._prepare_close(request)
        if b"expect" in headers and request.has_chunks:
            request.expects_continue = headers[b"expect"].lower() == b"100-continue"
        self._is_in_head = False
        self._arriving = request
        self._waiting.append(request)

    def on_body(self, body: bytes) -> None:
        self._overhead_bytes -= len(body)
        if self._arriving is not None:
            self._arriving.add_body_part(body)

    def on_message_complete(self) -> None:
        request, self._arriving = self._arriving, None
        if request is None:
            return
        request.complete()
        self._ignores_input = self._ignores_input or not request.keeps_alive
        if request.is_over:
            self._wait_for_request()
        else:
            self.deadline = NEVER

    # Called by requests

    def is_closing(self) -> bool:
        """Whether the client is gone, as far as the system knows."""
        return self._transport.is_closing() or (self._has_gone_quiet and _has_disconnected(self._transport))

    def watch_for_disconnect(self) -> None:
        """Keep reading, which is the only way to notice at once that the client disconnects."""
        self._is_watched = True
        if self._is_paused:
            self._read_or_pause()

    def resume_body(self, request: Request) -> None:
        if request.expects_continue:
            request.expects_continue = False
            self.write(CONTINUE)
        self._read_or_pause()

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        self._drained = self.connections.loop.create_future()
        await self._drained

    def abort(self) -> None:
        """Close at once. The system drops what the client has not read."""
        connection = self._transport.get_extra_info("socket")
        if connection is not None and self in self.connections.open:  # otherwise its descriptor may have been reused
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_OFF)
        self._transport.abort()

    def finish(self, request: Request) -> None:
        self.connections.in_progress.pop(request, None)
        self._current = None
        self._is_watched = False
        if self._transport.is_closing():
            return
        if not (request.keeps_alive and request.has_begun):
            self._close()
            return
        if self._arriving is None and not self._is_in_head:
            self._wait_for_request()
        if self._waiting or self._unparsed or self._is_paused:
            self._process_input()

    # Called by the server

    def close_when_idle(self) -> None:
        """Close once the current request has its response."""
        if self._current is None:
            self._close()
        else:
            self._current.keeps_alive = False

    def on_deadline(self) -> None:
        if self.is_write_blocked:
            self._wait_for_request()  # a client that does not read has its own timeout
        elif self._is_in_head or self._arriving is not None:
            self._reject(too_slow(self._settings.request_seconds))
        else:
            self._close()

    # Processing

    def _process_input(self) -> None:
        """Parse and handle in a loop: requests that are handled at once must not pile up on the stack."""
        if self._is_processing:
            return
        self._is_processing = True
        while not self._transport.is_closing():
            if self._unparsed and not self._ignores_input and (not self._waiting or self._waiting[0] is self._arriving):
                data = bytes(self._unparsed[:PARSE_CHUNK_BYTES])
                del self._unparsed[:PARSE_CHUNK_BYTES]
                self._parse(data)
            elif self._waiting and self._current is None and not self.is_write_blocked:
                self._handle(self._waiting.popleft())
            else:
                break
        self._is_processing = False
        if self._is_paused and not self._transport.is_closing():
            self._read_or_pause()

    def _parse(self, data: bytes) -> None:
        begun = self._requests_begun
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._ignores_input = True  # we respond in HTTP, and what follows would be another protocol
        except httptools.HttpParserError as error:
            if not self._ignores_input:
                self._reject(error.__context__ if isinstance(error.__context__, Refusal) else malformed())
            return
        if (self._is_in_head or self._arriving is not None) and not self._is_within_limits(data, begun):
            self._reject(self._head_too_large())

    def _handle(self, request: Request | Refusal) -> None:
        if isinstance(request, Refusal):
            self._refuse(request)
            return
        if self._has_gone_quiet and self.is_closing():
            self.abort()
            return
        self._current = request
        if self._arriving is None:  # otherwise its body still has a deadline
            self.deadline = NEVER
        self.connections.handle(request)

    def _read_or_pause(self) -> None:
        """Pause reading while there is input to process: the next request, or a body that no handler has asked for yet.

        If a handler watches for a disconnect, keep reading, and abort a client that sends more than we want to keep:
        beyond that, we could not notice that it is gone.
        """
        has_more = self._waiting or self._unparsed or (self._arriving is not None and self._arriving.has_unread_body)
        if has_more:
            self.deadline = NEVER
        if self._is_watched and len(self._unparsed) > READ_AHEAD_MAX_BYTES:
            self.abort()
        elif has_more and not self._is_watched:
            if not self._is_paused:
                self._is_paused = self._has_gone_quiet = True
                self._transport.pause_reading()
        elif self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
            if not has_more and (self._is_in_head or self._arriving is not None):
                self._wait_for_rest()

    def _wait_for_request(self) -> None:
        self.deadline = self.connections.loop.time() + self._settings.idle_seconds

    def _wait_for_rest(self) -> None:
        self.deadline = self.connections.loop.time() + self._settings.request_seconds

    # Limits

    def _is_within_limits(self, data: bytes, begun: int) -> bool:
        """Check an incomplete request. `begun` is the number of requests that had begun before `data` arrived."""
        if self._requests_begun != begun:
            self._wait_for_rest()
            return True
        self._overhead_bytes += len(data)
        room = self._settings.max_head_bytes + (0 if self._is_in_head else self._settings.max_body_bytes)
        return self._overhead_bytes <= room

    def _prepare_close(self, request: Request) -> None:
        """Handle HTTP/1.0, `Connection: close` and upgrades.

        The response to an upgrade request is HTTP. The request must not have a body, which could not be distinguished
        from the other protocol.
        """
        if self._parser.get_http_version() == "1.0":
            request.keeps_alive = request.has_chunks = False
        if self._parser.should_upgrade():
            request.keeps_alive = False
            if not {b"content-length", b"transfer-encoding"}.isdisjoint(request.headers):
                raise upgrade_with_body()

    def _has_plain_chunks(self, headers: dict[bytes, bytes]) -> bool:
        """A proxy in front of us might see another end of the request in any other encoding."""
        return headers[b"transfer-encoding"].lower() == b"chunked" and self._parser.get_http_version() != "1.0"

    def _head_too_large(self) -> Refusal:
        return head_too_large(self._settings.max_head_bytes, self._settings.max_headers)

    def _reject(self, refusal: Refusal) -> None:
        """Ignore further input, and send `refusal` once the requests before it have their responses.

        A request that a handler is already working on is refused at once, or cut off if its response has begun.
        """
        refused, self._arriving, self._is_in_head = self._arriving, None, False
        self._ignores_input = True
        self.deadline = NEVER
        if refused is None or (self._waiting and self._waiting[-1] is refused):
            if refused is not None:
                self._waiting.pop()
            self._waiting.append(refusal)
            self._process_input()
        elif refused.has_begun:
            self._close()
        else:
            self._refuse(refusal)

    def _refuse(self, refusal: Refusal) -> None:
        request = Request(self, "", "", b"", RequestHeaders())
        request.keeps_alive = False
        refusal.failure.request_id = request.id
        request.send(Response(refusal.failure, refusal.status, headers=retry_after(refusal.failure.retry_after_ms)))
        self._close()

    def _close(self) -> None:
        self._waiting.clear()
        self._transport.close()
        self.deadline = NEVER


def _peer_address(transport: asyncio.BaseTransport) -> str:
    try:
        peer = transport.get_extra_info("peername")
    except OSError:
        return "gone"
    return str(peer[0]) if isinstance(peer, tuple) else UNIX


def _has_disconnected(transport: asyncio.Transport) -> bool:
    """Ask the system, because nothing is being read from this client."""
    connection = transport.get_extra_info("socket")
    if connection is None:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), PEER_CLOSED)
    return bool(poll.poll(0))


def _merge_headers(fields: list[tuple[bytes, bytes]]) -> RequestHeaders:
    """Join repeated headers, except those that must not repeat."""
    headers = RequestHeaders()
    for name, value in fields:
        if name not in headers:
            headers[name] = value
        elif name in SINGLE_HEADERS:
            raise malformed()
        else:
            headers[name] = (b"; " if name == b"cookie" else b", ").join((headers[name], value))
    return headers
