"""A connection: bytes to requests and back, and what is bounded about it: how long, how large, how slow."""

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
from octostore.server.http import Request, Response
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
"""Requests take many times the bytes that they come in, so no more of what is sent ahead is made into some."""
AT_ONCE = struct.pack("ii", 1, 0)
"""How a socket is told not to go on sending after it is closed."""
READ_AHEAD_MAX_BYTES = 256 * 1_024
"""How much a client may send while it waits for an answer and we wait for it to go."""
LEFT = getattr(select, "POLLRDHUP", 0)
"""That the other side says no more. Where no system tells this, only those are noticed who are gone altogether."""

ONCE = {b"host", b"authorization", b"content-length", b"origin", b"transfer-encoding"}
"""Of two of these, somebody before us may go by one and we by the other."""


class Connection(asyncio.Protocol):
    """Requests are answered one after the other, in the order in which they came."""

    def __init__(self, company: "Connections") -> None:
        self.company = company
        self._settings = company.settings
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self.peer_address = ""
        self.deadline = NEVER
        """When `on_deadline` is to be called."""
        self.is_write_blocked = False
        self._drained: asyncio.Future[None] | None = None
        self.origin = ""
        """Whose connections it counts among."""
        self._is_paused = self._ignores_input = False
        """Whether we let the client wait, and whether it has said all that we want to hear."""
        self._has_gone_quiet = self._is_watched = False
        """Whether nothing has come since we let it wait, and whether somebody has to know at once when it goes."""
        self._unparsed = bytearray()
        """What has come and is still to be parsed."""
        self._arriving: Request | None = None
        """Its head has come, and the end of its body has not."""
        self._answering: Request | None = None
        self._is_processing = False
        """Whether what has come is being parsed and answered, further up the stack."""
        self._waiting: deque[Request | Refusal] = deque()
        """Those that came before the one before them was answered. After what we refuse to hear, nothing follows."""
        self._requests_begun = 0
        self._is_in_head = False
        self._overhead_bytes = 0
        """What has come of a request besides its body: the head, and then what frames the body and follows it."""
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer_address = _address_of(transport)  # while it has one: a client may be gone before it is asked for
        self._transport.set_write_buffer_limits(0)  # whatever the client does not take keeps us waiting, and is timed
        self._wait_for_request()
        refusal = self.company.enter(self)
        if refusal is not None:
            self._cut(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.company.leave(self)
        self._waiting.clear()
        self._unparsed.clear()
        self.resume_writing()
        if self._answering is not None:
            self._answering.lose()
        del self._parser  # which knows us: nothing is left for the garbage collector

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._has_gone_quiet = False
        if self._ignores_input or self._waiting or len(data) > PARSE_CHUNK_BYTES:
            self._unparsed += data
        else:
            self._parse(data)
        self._process_input()
        if self._waiting or self._unparsed or self._arriving is not None:
            self._read_or_pause()

    def pause_writing(self) -> None:
        self.is_write_blocked = True
        self.company.write_blocked[self] = self.company.loop.time() + self._settings.write_seconds

    def resume_writing(self) -> None:
        self.is_write_blocked = False
        self.company.write_blocked.pop(self, None)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._process_input()

    # What the parser tells

    def on_message_begin(self) -> None:
        self._requests_begun += 1
        self._is_in_head = True
        self._overhead_bytes = 0
        self._url = b""
        self._fields = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # trailers are of no use to anybody here
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        settings, parser, headers = self._settings, self._parser, dict(self._fields)
        size = len(self._url) + sum(map(len, chain.from_iterable(self._fields)))
        if len(self._fields) > settings.max_headers or size > settings.max_head_bytes:
            raise self._head_too_large()
        if len(headers) < len(self._fields):
            headers = _combined(self._fields)
        if b"transfer-encoding" in headers and not self._has_plain_chunks(headers):
            raise malformed()
        if b"#" in self._url:
            raise hash_in_target()
        url = httptools.parse_url(self._url)
        request = Request(self, parser.get_method().decode(), url.path.decode("ascii"), url.query, headers)
        request.keeps_alive = parser.should_keep_alive()
        if not request.keeps_alive or b"connection" in headers:
            self._prepare_end(request)
        if b"expect" in headers and request.has_chunks:
            request.expects_continue = headers[b"expect"].lower() == b"100-continue"
        self._is_in_head = False
        self._arriving = request
        self._waiting.append(request)

    def on_body(self, body: bytes) -> None:
        self._overhead_bytes -= len(body)
        if self._arriving is not None:
            self._arriving.take(body)

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

    # What requests tell

    def is_closing(self) -> bool:
        """Whether nobody will get what is written now, as far as the system knows."""
        return self._transport.is_closing() or (self._has_gone_quiet and _has_left(self._transport))

    def watch(self) -> None:
        """Whoever answers has to know at once when the client goes. That is heard only by reading on."""
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
        self._drained = self.company.loop.create_future()
        await self._drained

    def abort(self) -> None:
        """At once, and without a word more: also the system forgets what the client has not read."""
        connection = self._transport.get_extra_info("socket")
        if connection is not None and self in self.company.open:  # or its number may be another's by now
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self._transport.abort()

    def finish(self, request: Request) -> None:
        self.company.in_progress.pop(request, None)
        self._answering = None
        self._is_watched = False
        if self._transport.is_closing():
            return
        if not (request.keeps_alive and request.has_begun):
            self._close()
            return
        if self._arriving is None and not self._is_in_head:
            self._wait_for_request()
        self._process_input()

    # What the server tells

    def end(self) -> None:
        """Close, once what is under way has been answered."""
        if self._answering is None:
            self._close()
        else:
            self._answering.keeps_alive = False

    def on_deadline(self) -> None:
        if self.is_write_blocked:
            self._wait_for_request()  # once it has read what it was sent, which has a time of its own
        elif self._is_in_head or self._arriving is not None:
            self._cut(too_slow(self._settings.request_seconds))
        else:
            self._close()

    # One after the other

    def _process_input(self) -> None:
        """What is answered at once is followed by the next in this loop, and not on the stack."""
        if self._is_processing:
            return
        self._is_processing = True
        while not self._transport.is_closing():
            if self._unparsed and not self._ignores_input and (not self._waiting or self._waiting[0] is self._arriving):
                data = bytes(self._unparsed[:PARSE_CHUNK_BYTES])
                del self._unparsed[:PARSE_CHUNK_BYTES]
                self._parse(data)
            elif self._waiting and self._answering is None and not self.is_write_blocked:
                self._answer(self._waiting.popleft())
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
            self._ignores_input = True  # the request is answered as any other, and what follows is not for us
        except httptools.HttpParserError as error:
            if not self._ignores_input:
                self._cut(error.__context__ if isinstance(error.__context__, Refusal) else malformed())
            return
        if (self._is_in_head or self._arriving is not None) and not self._is_within_bounds(data, begun):
            self._cut(self._head_too_large())

    def _answer(self, request: Request | Refusal) -> None:
        if isinstance(request, Refusal):
            self._refuse(request)
            return
        if self._has_gone_quiet and self.is_closing():
            self.abort()
            return
        self._answering = request
        if self._arriving is None:  # or its body would be waited for without end
            self.deadline = NEVER
        self.company.answer(request)

    def _read_or_pause(self) -> None:
        """Nothing is read ahead: not the next request, and not a body that nobody has asked for yet.

        Unless somebody has to know when the client goes. Then it may not send more than we want to keep, since behind
        that it could be gone.
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
        self.deadline = self.company.loop.time() + self._settings.idle_seconds

    def _wait_for_rest(self) -> None:
        self.deadline = self.company.loop.time() + self._settings.request_seconds

    # Bounds

    def _is_within_bounds(self, data: bytes, begun: int) -> bool:
        """Of a request of which something is still to come. `begun` says how many had begun before `data` came."""
        if self._requests_begun != begun:
            self._wait_for_rest()
            return True
        self._overhead_bytes += len(data)
        room = self._settings.max_head_bytes + (0 if self._is_in_head else self._settings.max_body_bytes)
        return self._overhead_bytes <= room

    def _prepare_end(self, request: Request) -> None:
        """For those who want to end the connection after this, do not speak HTTP/1.1, or want to speak something else.

        Whoever wants to speak something else gets its answer in HTTP. A body cannot be told apart from what it would
        say then.
        """
        if self._parser.get_http_version() == "1.0":
            request.keeps_alive = request.has_chunks = False
        if self._parser.should_upgrade():
            request.keeps_alive = False
            if not {b"content-length", b"transfer-encoding"}.isdisjoint(request.headers):
                raise upgrade_with_body()

    def _has_plain_chunks(self, headers: dict[bytes, bytes]) -> bool:
        """Whoever stands before us may understand anything else as another end of the request."""
        return headers[b"transfer-encoding"].lower() == b"chunked" and self._parser.get_http_version() != "1.0"

    def _head_too_large(self) -> Refusal:
        return head_too_large(self._settings.max_head_bytes, self._settings.max_headers)

    def _cut(self, refusal: Refusal) -> None:
        """Hear nothing more, and answer by ourselves when it is this request's turn: those before it get their answers.

        If somebody answers it already, it is refused in the middle of that, or only cut off if the answer has begun.
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
        answer = Request(self, "", "", b"", {})
        answer.keeps_alive = False
        refusal.failure.request_id = answer.id
        answer.send(Response(refusal.failure, refusal.status, headers=retry_after(refusal.failure.retry_after_ms)))
        self._close()

    def _close(self) -> None:
        self._waiting.clear()
        self._transport.close()
        self.deadline = NEVER


def _address_of(transport: asyncio.BaseTransport) -> str:
    try:
        peer = transport.get_extra_info("peername")
    except OSError:
        return "gone"
    return str(peer[0]) if isinstance(peer, tuple) else UNIX


def _has_left(transport: asyncio.Transport) -> bool:
    """What the system knows of a client from which nothing is read."""
    connection = transport.get_extra_info("socket")
    if connection is None:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), LEFT)
    return bool(poll.poll(0))


def _combined(fields: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers of one name are one, in their order; but not those of which there must be one only."""
    headers: dict[bytes, bytes] = {}
    for name, value in fields:
        if name not in headers:
            headers[name] = value
        elif name in ONCE:
            raise malformed()
        else:
            headers[name] = (b"; " if name == b"cookie" else b", ").join((headers[name], value))
    return headers
