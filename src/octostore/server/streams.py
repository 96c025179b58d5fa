"""Server-sent events: each answer goes on until the reader goes, is too slow, or may not read any more."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from octostore.core.errors import Unreachable
from octostore.server.http import Headers, Request, Send

ALIVE = b": alive\n\n"
RETRY_MS = 1_000
"""How soon a reader should come back after the stream has ended."""


class EventStream:
    """Sends what `frames` gives, which may be comments; `patience` is how long a reader may keep us waiting."""

    def __init__(self, request: Request, frames: AsyncGenerator[bytes, None], patience: float) -> None:
        self._request = request
        self._frames = frames
        self._patience = patience

    async def run(self, send: Send, headers: Headers) -> None:
        fields = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"), *headers]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        if self._request.method == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        gone = self._request.gone()
        sending = asyncio.create_task(self._send_all(send))
        try:
            await asyncio.wait((gone, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            try:
                await sending
            except asyncio.CancelledError:
                pass
            except TimeoutError:
                # What it has read last is where it can resume; nothing is skipped on its behalf.
                self._request.abort()
                await gone

    async def _send_all(self, send: Send) -> None:
        await self._send(send, b"retry: %d\n\n" % RETRY_MS)
        with suppress(Unreachable):  # the reader will come back, and be told then
            async with aclosing(self._frames) as frames:  # also when it is cut off, and not when somebody tidies up
                async for frame in frames:
                    await self._send(send, frame)
        await send({"type": "http.response.body", "body": b""})

    async def _send(self, send: Send, frame: bytes) -> None:
        """Raises `TimeoutError` for a reader that does not read: its buffer stays full."""
        message = {"type": "http.response.body", "body": frame, "more_body": True}
        if not self._request.is_clogged:
            await send(message)  # does not wait, and so needs no clock
            return
        async with asyncio.timeout(self._patience):
            await send(message)
