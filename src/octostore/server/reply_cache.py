"""A cache for replies that cost a scan or a write. Callers that ask meanwhile, or soon after, share one reply."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

FAILED_SECONDS = 1.0
"""How long a failure is cached, so that not every caller tries again."""


class _Fetch(NamedTuple, Generic[T]):
    at: float
    task: asyncio.Task[T]


class ReplyCache(Generic[T]):
    """Caches the results of `find` by key, each for `seconds` from when it was requested."""

    def __init__(self, seconds: float, find: Callable[[str], Awaitable[T]]) -> None:
        self.seconds = seconds
        self._find = find
        self._fetches: dict[str, _Fetch[T]] = {}

    async def __call__(self, key: str = "", max_age: float | None = None) -> T:
        """Return a result at most `max_age` seconds old."""
        now = time.monotonic()
        known = self._fetches.get(key)
        if known is None or self._is_stale(known, now, self.seconds if max_age is None else max_age):
            self._fetches = {
                other: fetch for other, fetch in self._fetches.items() if not self._is_stale(fetch, now, self.seconds)
            }
            known = self._fetches[key] = _Fetch(now, asyncio.ensure_future(self._fetch(key)))
        return await asyncio.shield(known.task)

    def forget(self) -> None:
        """Drop all results. Callers that are waiting still get theirs."""
        self._fetches = {}

    async def _fetch(self, key: str) -> T:
        return await self._find(key)

    def _is_stale(self, fetch: _Fetch[T], now: float, seconds: float) -> bool:
        task = fetch.task
        if not task.done():
            return False
        has_failed = task.cancelled() or task.exception() is not None
        return now - fetch.at > (min(FAILED_SECONDS, seconds) if has_failed else seconds)
