"""Requests and responses, as handlers see them. No framework, because its cost would be part of every claim."""

import asyncio
import re
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
_SAFE_HOST = re.compile(r"[\w.:\[\]-]{1,255}", re.ASCII)
NO_CONTENT = 204

DATA_POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing inline, nothing from other origins, and no text that becomes markup."""


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
    """The status line and headers that all responses of a kind share."""
    return b"HTTP/1.1 %d %s\r\n%s" % (status, status.phrase.encode(), header_lines(headers))


_STARTS = {status.value: response_start(status, SECURITY_HEADERS) for status in HTTPStatus}
PAGE_RESPONSE_START = response_start(
    HTTPStatus.OK, [*security_headers(PAGE_POLICY), (b"cross-origin-opener-policy", b"same-origin")]
)


class RequestHeaders(dict[bytes, bytes]):
    """Shared by all requests with the same header lines, so do not change them."""

    token_digest: bytes | None = None
    """The digest of the bearer token, once a request has needed it."""


class Response(msgspec.Struct, frozen=True):
    """`content` is encoded as JSON unless it is bytes of `content_type`."""

    content: Any
    status: int = 200
    content_type: bytes = b"application/json"
    headers: Headers = ()
    start: bytes = b""
    """The status line and security headers, if they differ from the default."""


class StreamingResponse(Protocol):
    """A response whose end is open."""

    async def run(self) -> None: ...


class ClientDisconnected(Exception):  # no `Error` suffix: nobody will see it
    """The client has closed the connection, so nobody waits for the response any more."""


class Request:
    """One request and its response. `route` is set once it is known."""

    route: "Route | None" = None
    principal: str | None = None
    """Who sent it, once that is known."""
    began_at = 0.0
    """When processing began, by `perf_counter`."""
    token_changes_seen = -1
    """The number of token changes there had been when its token was last checked."""
    until: float | None = None
    """When the caller stops waiting for the response, by `boottime`; None if it did not say."""
    response_headers: Headers = ()
    """Headers for any response to this request."""
    keeps_alive = True
    """Whether the connection stays open afterwards."""
    has_chunks = True
    """Whether the client understands chunked responses."""
    expects_continue = False
    """Whether the client waits for `100 Continue` before it sends the body."""
    has_begun = is_over = False
    """Whether the response has begun, and whether all of it has been written."""
    is_received = False
    """Whether the whole body has arrived."""
    _body: bytes | bytearray = b""
    _limit = sys.maxsize
    _wants_body = _is_disconnected = False
    _body_changed: asyncio.Future[None] | None = None
    _disconnected: asyncio.Future[None] | None = None

    def __init__(
        self,
        connection: "Connection",
        method: str,
        path: str,
        query: bytes,
        headers: RequestHeaders,
        *,
        body: bytes | None = None,
    ) -> None:
        """If `body` is None, it has yet to arrive."""
        self.id = f"req_{new_request_id()}"
        self.method = method
        self.raw_path = path
        """Before percent-decoding, so a name that contains `/` is still one segment."""
        self.headers = headers
        self._connection = connection
        self.raw_query = query
        if body is not None:
            self._body, self.is_received = body, True

    # Content

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
        """The body of a request that has fully arrived."""
        if len(self._body) > limit:
            raise body_too_large(limit)
        return bytes(self._body)

    async def body(self, limit: int) -> bytes:
        """Wait for the body. Only this call makes the connection read the rest of it."""
        if int(self.headers.get(b"content-length", 0)) > limit:
            raise body_too_large(limit)
        self._limit = limit
        if not self.is_received:
            self._wants_body = True
            self._connection.resume_body(self)
            while not (self.is_received or self._is_disconnected or len(self._body) > limit):
                self._body_changed = asyncio.get_running_loop().create_future()
                await self._body_changed
        if self._is_disconnected and not self.is_received:
            raise ClientDisconnected
        return self.complete_body(limit)

    # Called by the connection

    @property
    def has_unread_body(self) -> bool:
        """Whether some of the body has arrived before a handler asked for it."""
        return bool(self._body) and not (self._wants_body or self.is_over)

    @property
    def received_bytes(self) -> int:
        return len(self._body)

    def add_body_part(self, part: bytes) -> None:
        """Keep a part of the body. Anything beyond the limit is dropped."""
        if not self.is_over and len(self._body) <= self._limit:
            if not self._body:
                self._body = part  # usually the whole body
            elif isinstance(self._body, bytearray):
                self._body += part
            else:
                self._body = bytearray(self._body + part)
            if len(self._body) > self._limit:
                self._wake()

    def complete(self) -> None:
        self.is_received = True
        if self._body_changed is not None:
            self._wake()

    def on_disconnect(self) -> None:
        self._is_disconnected = True
        self._wake()
        if self._disconnected is not None and not self._disconnected.done():
            self._disconnected.set_result(None)

    def _wake(self) -> None:
        if self._body_changed is not None and not self._body_changed.done():
            self._body_changed.set_result(None)

    # The client

    @property
    def client_address(self) -> str:
        """The peer's address, or its client's if the peer is a trusted proxy."""
        return self._connection.connections.proxies.client_behind(self._connection.peer_address, self.headers)

    @property
    def scheme(self) -> str:
        """The scheme in the client's URL, as far as we can know."""
        return self._connection.connections.proxies.client_scheme(self._connection.peer_address, self.headers)

    @property
    def base_path(self) -> str:
        """The path under which the client sees the server."""
        return self._connection.connections.settings.base_path

    @property
    def base_url(self) -> str | None:
        """The server's URL as the client knows it; None if its host is not safe to repeat."""
        host = self.header(b"host") or ""
        return f"{self.scheme}://{host}{self.base_path}" if _SAFE_HOST.fullmatch(host) else None

    @property
    def is_closed(self) -> bool:
        """Whether the client is known to have disconnected. Cheap: nothing is read for it."""
        return self._is_disconnected or self._connection.is_closing()

    def disconnected(self) -> "asyncio.Future[None]":
        """A future that is done once the client has closed the connection."""
        if self._disconnected is None:
            self._disconnected = asyncio.get_running_loop().create_future()
            self._connection.watch_for_disconnect()
            if self._is_disconnected:
                self._disconnected.set_result(None)
        return self._disconnected

    def abort(self) -> None:
        """Reset the connection, and drop what is still unsent."""
        self._connection.abort()

    # The response

    def send(self, response: Response) -> None:
        if response.status == NO_CONTENT:
            self._connection.write(self._head(_STARTS[NO_CONTENT], response.headers, b"", b""))
            return
        body = encode(response.content)
        content = b"content-type: %b\r\ncontent-length: %d\r\n" % (response.content_type, len(body))
        start = response.start or _STARTS[response.status]
        self._connection.write(self._head(start, response.headers, content, b"" if self.method == "HEAD" else body))

    def begin(self, content_type: bytes, headers: Headers) -> None:
        """Begin a response that is sent with `send_part`, `end` and `close`."""
        if not self.has_chunks:
            self.keeps_alive = False
        coding = b"transfer-encoding: chunked\r\n" if self.has_chunks and self.method != "HEAD" else b""
        content = b"content-type: %b\r\n%b" % (content_type, coding)
        self._connection.write(self._head(_STARTS[200], headers, content, b""))

    async def send_part(self, part: bytes) -> None:
        """Send, and wait until the client can take more."""
        self._connection.write(b"%x\r\n%b\r\n" % (len(part), part) if self.has_chunks else part)
        if self._connection.is_write_blocked:
            await self._connection.drain()

    def end(self) -> None:
        """Mark the end of a response sent in parts."""
        if self.has_chunks:
            self._connection.write(b"0\r\n\r\n")

    def close(self) -> None:
        """Call once, when nothing more will be written."""
        self.is_over = True
        self._connection.finish(self)

    def _head(self, start: bytes, headers: Headers, content: bytes, body: bytes) -> bytes:
        self.has_begun = True
        if self.expects_continue and not self.is_received:
            self.keeps_alive = False  # nobody can tell whether the client will still send the body
        more = header_lines((*headers, *self.response_headers)) if headers or self.response_headers else b""
        closing = b"" if self.keeps_alive else b"connection: close\r\n"
        end = b"x-request-id: %b\r\n\r\n" % self.id.encode()
        return b"".join((start, self._connection.connections.date, content, more, closing, end, body))


_encode = msgspec.json.Encoder().encode


def encode(content: Any) -> bytes:
    return content if isinstance(content, bytes) else _encode(content)
