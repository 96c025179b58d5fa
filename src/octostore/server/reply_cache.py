"""Answers that cost a scan or a write: whoever asks while one is under way, or soon after it, shares it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

FAILED_SECONDS = 1.0
"""For how long a failure is an answer, so that it is not tried again for everybody."""


class _Fetch(NamedTuple, Generic[T]):
    at: float
    task: asyncio.Task[T]


class ReplyCache(Generic[T]):
    """An answer of `find`, for each key that it is given, is good for `seconds` from when it was asked for."""

    def __init__(self, seconds: float, find: Callable[[str], Awaitable[T]]) -> None:
        self.seconds = seconds
        self._find = find
        self._asked: dict[str, _Fetch[T]] = {}

    async def __call__(self, key: str = "", max_age: float | None = None) -> T:
        """With `max_age`, one that is at most so many seconds old."""
        now = time.monotonic()
        known = self._asked.get(key)
        if known is None or self._is_over(known, now, self.seconds if max_age is None else max_age):
            self._asked = {
                other: asked for other, asked in self._asked.items() if not self._is_over(asked, now, self.seconds)
            }
            known = self._asked[key] = _Fetch(now, asyncio.ensure_future(self._found(key)))
        return await asyncio.shield(known.task)

    def forget(self) -> None:
        """What was found; who waits for an answer still gets it."""
        self._asked = {}

    async def _found(self, key: str) -> T:
        return await self._find(key)

    def _is_over(self, asked: _Fetch[T], now: float, seconds: float) -> bool:
        task = asked.task
        if not task.done():
            return False
        has_failed = task.cancelled() or task.exception() is not None
        return now - asked.at > (min(FAILED_SECONDS, seconds) if has_failed else seconds)
