"""What is bounded about a connection before there is a request: how many, how long, how large, how slow."""

import asyncio
import uuid
from typing import Any, ClassVar

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

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
        self._timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._is_in_head = False
        self._refusal: Refusal | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.settings.max_connections:
            self._cut(too_many_connections())
            return
        self._timer = self.loop.call_later(self.settings.idle_seconds, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        was_in_head = self._is_in_head
        super().data_received(data)
        if was_in_head and self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self.settings.max_head_bytes and not self.transport.is_closing():
                self._cut(head_too_large(self.settings.max_head_bytes, self.settings.max_headers))

    # Parser callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"octostore.abort": {"call": self.transport.abort}}
        self._head_bytes = 0
        self._is_in_head = True
        self._stop_timer()
        self._timer = self.loop.call_later(self.settings.request_seconds, self._on_too_slow)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if len(self.headers) > self.settings.max_headers or size > self.settings.max_head_bytes:
            self._refusal = head_too_large(self.settings.max_head_bytes, self.settings.max_headers)
            raise httptools.HttpParserError("the head is too large")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_timer()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        del msg
        self._cut(self._refusal or malformed())

    # Ending it

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_too_slow(self) -> None:
        if not self.transport.is_closing():
            self._cut(too_slow(self.settings.request_seconds))

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
            *retry_after(failure.retry_after_ms),
        ]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(STATUS_LINE[refusal.status] + head + b"\r\n" + body)
        self.transport.close()
