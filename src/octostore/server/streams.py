"""Server-sent events: each answer goes on until the reader goes, is too slow, or may not read any more."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager, suppress

from octostore.core.errors import Unreachable
from octostore.server.http import Request
from octostore.server.refusals import too_many_streams

KEEPALIVE = b": alive\n\n"
RETRY_MS = 1_000
"""How soon a reader should come back after the stream has ended."""
CHUNK_BYTES = 64 * 1_024
"""How much is written at once: what is more waits until the reader has taken this."""


class OpenStreams:
    """How many each principal has, and how many it may have."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._open.total()

    @contextmanager
    def one_of(self, principal: str) -> Iterator[None]:
        if self._open[principal] >= self._most:
            raise too_many_streams(self._most)
        self._open[principal] += 1
        try:
            yield
        finally:
            self._open[principal] -= 1
            if not self._open[principal]:
                del self._open[principal]


class EventStream:
    """Sends what `frames` gives, which may be comments, as long as it has its `place`.

    Nothing is asked of `frames` before the reader has taken what came before. The connection ends those who do not read
    at all: what such a reader has got last is where it can resume, and nothing is skipped on its behalf.
    """

    def __init__(
        self, request: Request, frames: AsyncGenerator[bytes, None], place: AbstractContextManager[None]
    ) -> None:
        self._request = request
        self._frames = frames
        self._place = place

    async def run(self) -> None:
        with self._place:
            self._request.begin(b"text/event-stream; charset=utf-8", [(b"x-accel-buffering", b"no")])
            if self._request.method != "HEAD":
                await self._send_until_gone()

    async def _send_until_gone(self) -> None:
        gone, sending = self._request.gone(), asyncio.create_task(self._send_all())
        try:
            await asyncio.wait((gone, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    async def _send_all(self) -> None:
        await self._send(b"retry: %d\n\n" % RETRY_MS)
        with suppress(Unreachable):  # the reader will come back, and be told then
            async with aclosing(self._frames) as frames:  # also when it is cut off, and not when somebody tidies up
                async for frame in frames:
                    await self._send(frame)
        self._request.end()

    async def _send(self, frame: bytes) -> None:
        for start in range(0, len(frame), CHUNK_BYTES):  # hardly any is larger
            await self._request.send_part(frame[start : start + CHUNK_BYTES])
