"""Requests and answers, as the handlers see them. No framework: what one adds is on the path of every claim."""

import asyncio
import sys
from collections.abc import Sequence
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from octostore.core.errors import InvalidInput
from octostore.server.refusals import body_too_large
from octostore.stores.ids import new_request_id

if TYPE_CHECKING:
    from octostore.server.protocol import Connection
    from octostore.server.router import Route

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

MAX_QUERY_FIELDS = 20
NO_CONTENT = 204

DATA_POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing inline, nothing from elsewhere, and no text that becomes markup."""


def security_headers(policy: bytes = DATA_POLICY, cache: bytes = b"no-store") -> Headers:
    return [
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", cache),
        (b"content-security-policy", policy),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]


SECURITY_HEADERS = security_headers()


def header_lines(headers: Headers) -> bytes:
    return b"".join(b"%s: %s\r\n" % header for header in headers)


def response_start(status: HTTPStatus, headers: Headers) -> bytes:
    """What is the same in all answers of a kind."""
    return b"HTTP/1.1 %d %s\r\n%s" % (status, status.phrase.encode(), header_lines(headers))


_STARTS = {status.value: response_start(status, SECURITY_HEADERS) for status in HTTPStatus}
PAGE_RESPONSE_START = response_start(
    HTTPStatus.OK, [*security_headers(PAGE_POLICY), (b"cross-origin-opener-policy", b"same-origin")]
)


class Response(msgspec.Struct, frozen=True):
    """`content` is encoded as JSON unless it is bytes of `content_type`."""

    content: Any
    status: int = 200
    content_type: bytes = b"application/json"
    headers: Headers = ()
    start: bytes = b""
    """The status and the security headers, where these are not the usual ones."""


class StreamingResponse(Protocol):
    """An answer that goes on."""

    async def run(self) -> None: ...


class ClientDisconnected(Exception):  # nobody is there to be told of an error
    """The client has closed the connection, so nobody waits for the answer any more."""


class Request:
    """One request. `route` is set once it is known."""

    route: "Route | None" = None
    principal: str | None = None
    """Who sent it, once that is known."""
    began_at = 0.0
    """When answering it began, on the clock of `perf_counter`."""
    token_changes_seen = -1
    """How many changes of tokens there had been when its token was last checked."""
    until: float | None = None
    """When its caller stops waiting for the answer, on the clock of `boottime`, if it says so."""
    response_headers: Headers = ()
    """What goes with any answer to it."""
    keeps_alive = True
    """Whether the connection goes on afterwards."""
    has_chunks = True
    """Whether the client can read an answer whose length is not told in advance."""
    expects_continue = False
    """Whether the client sends no body before it is told to."""
    has_begun = is_over = False
    """Whether something of the answer has been sent, and whether all has."""
    is_received = False
    _body: bytes | bytearray = b""
    _limit = sys.maxsize
    _wants_body = _is_lost = False
    _news: asyncio.Future[None] | None = None
    _gone: asyncio.Future[None] | None = None

    def __init__(self, line: "Connection", method: str, path: str, query: bytes, headers: dict[bytes, bytes]) -> None:
        self.id = f"req_{new_request_id()}"
        self.method = method
        self.raw_path = path
        """Not decoded: a name with a `/` in it is one segment."""
        self.headers = headers
        self._line = line
        self.raw_query = query

    # What it says

    @cached_property
    def query(self) -> dict[str, str]:
        if not self.raw_query:
            return {}
        try:
            pairs = parse_qsl(
                self.raw_query.decode("ascii"),
                keep_blank_values=True,
                strict_parsing=True,
                errors="strict",
                max_num_fields=MAX_QUERY_FIELDS,
            )
        except ValueError:
            raise InvalidInput("query", "is not valid: it must be name=value pairs in percent-encoded UTF-8") from None
        query = dict(pairs)
        if len(query) != len(pairs):
            raise InvalidInput("query", "repeats a name")
        return query

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def complete_body(self, limit: int) -> bytes:
        """Of a request of which all has come."""
        if len(self._body) > limit:
            raise body_too_large(limit)
        return bytes(self._body)

    async def body(self, limit: int) -> bytes:
        """The rest of it is only read from the network once this is called."""
        if int(self.headers.get(b"content-length", 0)) > limit:
            raise body_too_large(limit)
        self._limit = limit
        if not self.is_received:
            self._wants_body = True
            self._line.resume_body(self)
            while not (self.is_received or self._is_lost or len(self._body) > limit):
                self._news = asyncio.get_running_loop().create_future()
                await self._news
        if self._is_lost and not self.is_received:
            raise ClientDisconnected
        return self.complete_body(limit)

    # What the connection has to tell

    @property
    def has_unread_body(self) -> bool:
        """Whether some of the body is here that nobody has asked for."""
        return bool(self._body) and not (self._wants_body or self.is_over)

    def take(self, part: bytes) -> None:
        """A part of the body. What is more than was asked for is dropped."""
        if not self.is_over and len(self._body) <= self._limit:
            if not self._body:
                self._body = part  # mostly all of it
            elif isinstance(self._body, bytearray):
                self._body += part
            else:
                self._body = bytearray(self._body + part)
            if len(self._body) > self._limit:
                self._wake()

    def complete(self) -> None:
        self.is_received = True
        if self._news is not None:
            self._wake()

    def lose(self) -> None:
        """The client has gone."""
        self._is_lost = True
        self._wake()
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # Whether anybody is there

    @property
    def client_address(self) -> str:
        """Of the peer, or of whoever is behind it if that is a trusted proxy."""
        return self._line.company.proxies.client_behind(self._line.peer_address, self.headers)

    @property
    def scheme(self) -> str:
        """How the client calls us, as far as we can know."""
        return self._line.company.proxies.client_scheme(self._line.peer_address, self.headers)

    @property
    def base_path(self) -> str:
        """What the client has in front of our paths."""
        return self._line.company.settings.base_path

    @property
    def is_closed(self) -> bool:
        """Whether the client is known to have gone; costs nothing, as opposed to waiting for it."""
        return self._is_lost or self._line.is_closing()

    def gone(self) -> "asyncio.Future[None]":
        """Done once the client has closed the connection."""
        if self._gone is None:
            self._gone = asyncio.get_running_loop().create_future()
            self._line.watch()
            if self._is_lost:
                self._gone.set_result(None)
        return self._gone

    def abort(self) -> None:
        """Cut the connection without waiting for what is still to be sent."""
        self._line.abort()

    # The answer

    def send(self, answer: Response) -> None:
        """All of it, in one piece."""
        if answer.status == NO_CONTENT:
            self._line.write(self._head(_STARTS[NO_CONTENT], answer.headers, b"", b""))
            return
        body = encode(answer.content)
        content = b"content-type: %b\r\ncontent-length: %d\r\n" % (answer.content_type, len(body))
        start = answer.start or _STARTS[answer.status]
        self._line.write(self._head(start, answer.headers, content, b"" if self.method == "HEAD" else body))

    def begin(self, content_type: bytes, headers: Headers) -> None:
        """An answer that comes in parts, until `close`."""
        if not self.has_chunks:
            self.keeps_alive = False
        coding = b"transfer-encoding: chunked\r\n" if self.has_chunks and self.method != "HEAD" else b""
        self._line.write(self._head(_STARTS[200], headers, b"content-type: %b\r\n%b" % (content_type, coding), b""))

    async def send_part(self, part: bytes) -> None:
        """Until the client has taken it."""
        self._line.write(b"%x\r\n%b\r\n" % (len(part), part) if self.has_chunks else part)
        if self._line.is_write_blocked:
            await self._line.drain()

    def end(self) -> None:
        """There are no more parts."""
        if self.has_chunks:
            self._line.write(b"0\r\n\r\n")

    def close(self) -> None:
        """To be called once, when nothing more will be written."""
        self.is_over = True
        self._line.finish(self)

    def _head(self, start: bytes, headers: Headers, content: bytes, body: bytes) -> bytes:
        self.has_begun = True
        if self.expects_continue and not self.is_received:
            self.keeps_alive = False  # it may or may not send the body now, and nobody can tell
        more = header_lines((*headers, *self.response_headers)) if headers or self.response_headers else b""
        closing = b"" if self.keeps_alive else b"connection: close\r\n"
        end = b"x-request-id: %b\r\n\r\n" % self.id.encode()
        return b"".join((start, self._line.company.date, content, more, closing, end, body))


_encode = msgspec.json.Encoder().encode


def encode(content: Any) -> bytes:
    return content if isinstance(content, bytes) else _encode(content)
