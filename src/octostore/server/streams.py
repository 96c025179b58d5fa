"""Server-sent events: a stream lasts until its reader disconnects, is too slow, or loses its permission to read."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager, suppress

from octostore.core.errors import Unreachable
from octostore.server.http import Request
from octostore.server.refusals import too_many_streams

KEEPALIVE = b": alive\n\n"
RETRY_MS = 1_000
"""How soon a reader should reconnect after the stream ends."""
CHUNK_BYTES = 64 * 1_024
"""How much is written at a time. The rest waits until the reader has taken this much."""


class OpenStreams:
    """Counts each principal's streams, and limits them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._open.total()

    @contextmanager
    def slot(self, principal: str) -> Iterator[None]:
        if self._open[principal] >= self._limit:
            raise too_many_streams(self._limit)
        self._open[principal] += 1
        try:
            yield
        finally:
            self._open[principal] -= 1
            if not self._open[principal]:
                del self._open[principal]


class EventStream:
    """Sends `frames`, some of which are comments, while it holds its `slot`.

    The first frame must come at once, even if it is empty: the response begins after it, so that a reader gets an error
    if the store cannot be reached. The next frame is requested only after the reader has taken the last one. A reader
    that stops reading is disconnected, and can resume after the last event it received: no event is skipped.
    """

    def __init__(
        self, request: Request, frames: AsyncGenerator[bytes, None], slot: AbstractContextManager[None]
    ) -> None:
        self._request = request
        self._frames = frames
        self._slot = slot

    async def run(self) -> None:
        with self._slot:
            if self._request.method == "HEAD":
                self._begin()
                return
            async with aclosing(self._frames):  # close them now, not whenever they are garbage-collected
                first = await anext(self._frames, b"")
                self._begin()
                await self._send_until_disconnect(first)

    def _begin(self) -> None:
        self._request.begin(b"text/event-stream; charset=utf-8", [(b"x-accel-buffering", b"no")])

    async def _send_until_disconnect(self, first: bytes) -> None:
        disconnected, sending = self._request.disconnected(), asyncio.create_task(self._send_all(first))
        try:
            await asyncio.wait((disconnected, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    async def _send_all(self, first: bytes) -> None:
        await self._send(b"retry: %d\n\n" % RETRY_MS)
        await self._send(first)
        with suppress(Unreachable):  # the reader will reconnect, and get the error then
            async for frame in self._frames:
                await self._send(frame)
        self._request.end()

    async def _send(self, frame: bytes) -> None:
        for start in range(0, len(frame), CHUNK_BYTES):  # usually one part
            await self._request.send_part(frame[start : start + CHUNK_BYTES])
