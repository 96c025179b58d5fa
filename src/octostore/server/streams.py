"""Server-sent events: each answer goes on until the reader goes, is too slow, or may not read any more."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from octostore.core.errors import Unreachable
from octostore.server.http import Request

ALIVE = b": alive\n\n"
RETRY_MS = 1_000
"""How soon a reader should come back after the stream has ended."""


class EventStream:
    """Sends what `frames` gives, which may be comments; `patience` is how long a reader may keep us waiting."""

    def __init__(self, request: Request, frames: AsyncGenerator[bytes, None], patience: float) -> None:
        self._request = request
        self._frames = frames
        self._patience = patience

    async def run(self) -> None:
        request = self._request
        request.begin(b"text/event-stream; charset=utf-8", [(b"x-accel-buffering", b"no")])
        if request.method == "HEAD":
            return
        gone, sending = request.gone(), asyncio.create_task(self._send_all())
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
                request.abort()

    async def _send_all(self) -> None:
        await self._send(b"retry: %d\n\n" % RETRY_MS)
        with suppress(Unreachable):  # the reader will come back, and be told then
            async with aclosing(self._frames) as frames:  # also when it is cut off, and not when somebody tidies up
                async for frame in frames:
                    await self._send(frame)
        self._request.end()

    async def _send(self, frame: bytes) -> None:
        """Raises `TimeoutError` for a reader that does not read: its buffer stays full."""
        if not self._request.is_clogged:
            await self._request.send_part(frame)  # does not wait, and so needs no clock
            return
        async with asyncio.timeout(self._patience):
            await self._request.send_part(frame)
