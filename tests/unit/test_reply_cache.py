"""Shared replies: who gets which one, and how old it may be."""

import asyncio

import pytest

from octostore.core.errors import Unreachable
from octostore.server.reply_cache import ReplyCache


class Source:
    """Replies with how often it was asked, once `may_reply` is set."""

    def __init__(self, seconds: float) -> None:
        self.asked: list[str] = []
        self.may_reply = asyncio.Event()
        self.may_reply.set()
        self.fault: Exception | None = None
        self.recent = ReplyCache[int](seconds, self._find)

    async def _find(self, key: str) -> int:
        self.asked.append(key)
        number = len(self.asked)
        await self.may_reply.wait()
        if self.fault is not None:
            raise self.fault
        return number


def test_each_key_has_its_own_reply_until_it_is_too_old() -> None:
    async def run() -> None:
        source = Source(3_600)
        assert [await source.recent(key) for key in ("a", "b", "a", "b")] == [1, 2, 1, 2]
        source.recent.seconds = -1
        assert await source.recent("a") == 3
        assert len(source.recent._fetches) == 1, "a reply that is too old is not kept"

    asyncio.run(run())


def test_a_reply_is_at_most_as_old_as_the_caller_allows() -> None:
    async def run() -> None:
        source = Source(3_600)
        assert [await source.recent(max_age=seconds) for seconds in (60, 60, -1, 60)] == [1, 1, 2, 2]
        source.recent.seconds = -1
        assert await source.recent(max_age=60) == 2
        assert await source.recent() == 3

    asyncio.run(run())


def test_a_slow_reply_is_not_requested_a_second_time() -> None:
    async def run() -> None:
        source = Source(-1)
        source.may_reply.clear()
        asking = [asyncio.create_task(source.recent()) for _ in range(3)]
        await asyncio.sleep(0)
        asking[0].cancel()
        source.may_reply.set()
        assert await asyncio.gather(*asking[1:]) == [1, 1]

    asyncio.run(run())


def test_a_failure_is_kept_only_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        source = Source(3_600)
        source.fault = Unreachable("no disk", reason="io")
        for _ in range(2):
            with pytest.raises(Unreachable):
                await source.recent()
        assert len(source.asked) == 1
        monkeypatch.setattr("octostore.server.reply_cache.FAILED_SECONDS", -1)
        source.fault = None
        assert await source.recent() == 2

    asyncio.run(run())


def test_a_forgotten_reply_is_requested_again() -> None:
    async def run() -> None:
        source = Source(3_600)
        await source.recent()
        source.recent.forget()
        assert await source.recent() == 2

    asyncio.run(run())
