"""What is bounded about a connection before there is a request: how many, how long, how large, how slow."""

import asyncio
import socket
import uuid
from typing import Any, ClassVar

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from octostore.server.guard import SECURITY_HEADERS
from octostore.server.refusals import (
    Refusal,
    head_too_large,
    malformed,
    retry_after,
    too_many_connections,
    too_slow,
)
from octostore.server.settings import Settings


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's, which reads as many headers, for as long, as anybody likes to send."""

    settings: ClassVar[Settings] = Settings()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.timeout_keep_alive = self.settings.idle_seconds  # type: ignore[assignment]  # need not be whole
        self._timer: asyncio.TimerHandle | None = None
        self._requests = 0
        self._is_in_request = False
        self._is_in_head = False
        self._other_bytes = 0
        """What has come of this request besides its body: the head, and then what frames the body and follows it."""
        self._refusal: Refusal | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _send_at_once(transport)
        if len(self.connections) > self.settings.max_connections:
            self._cut(too_many_connections())
            return
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        requests = self._requests
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self._is_in_request:
            self._wait_for_request()
        elif self._requests == requests:  # the same that it was before
            self._other_bytes += len(data)
            room = self.settings.max_head_bytes + (0 if self._is_in_head else self.settings.max_body_bytes)
            if self._other_bytes > room:
                self._cut(self._head_too_large())

    # Parser callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"octostore.connection": {"transport": self.transport, "flow": self.flow}}
        self._requests += 1
        self._other_bytes = 0
        self._is_in_request = self._is_in_head = True
        self._stop_timer()
        self._timer = self.loop.call_later(self.settings.request_seconds, self._on_too_slow)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # trailers are of no use to anybody here
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if len(self.headers) > self.settings.max_headers or size > self.settings.max_head_bytes:
            self._refusal = self._head_too_large()
            raise httptools.HttpParserError("the head is too large")
        super().on_headers_complete()
        self._is_in_head = False

    def on_body(self, body: bytes) -> None:
        self._other_bytes -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_request = False
        self._stop_timer()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        del msg
        self._cut(self._refusal or malformed())

    # Ending it

    def _wait_for_request(self) -> None:
        """Not for ever. Between requests uvicorn has a timer of its own, which anything that comes stops."""
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self._timer is None and self.timeout_keep_alive_task is None:
            self._timer = self.loop.call_later(self.settings.idle_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_too_slow(self) -> None:
        if not self.transport.is_closing():
            self._cut(too_slow(self.settings.request_seconds))

    def _head_too_large(self) -> Refusal:
        return head_too_large(self.settings.max_head_bytes, self.settings.max_headers)

    def _cut(self, refusal: Refusal) -> None:
        """Answer by ourselves, since there is no request that the application could answer, and close."""
        self._stop_timer()
        failure = refusal.failure
        failure.request_id = f"req_{uuid.uuid4().hex}"
        body = msgspec.json.encode(failure)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            (b"x-request-id", failure.request_id.encode()),
            *SECURITY_HEADERS,
            *retry_after(failure.retry_after_ms),
        ]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        if self._may_answer():
            self.transport.write(STATUS_LINE[refusal.status] + head + b"\r\n" + body)
        self.transport.close()

    def _may_answer(self) -> bool:
        """Whether the client would take it for the answer to this request, and has none yet."""
        if self._is_in_request and not self._is_in_head:
            return not self.cycle.response_started and not self.pipeline
        return self.cycle is None or self.cycle.response_complete  # the one before has its own


def _send_at_once(transport: asyncio.Transport) -> None:
    """An answer is two writes, and the second would wait 40 ms for the first to be confirmed.

    asyncio sees to that by itself, except for listeners that were made without naming TCP.
    """
    connected = transport.get_extra_info("socket")
    if connected is not None and connected.family in {socket.AF_INET, socket.AF_INET6}:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
