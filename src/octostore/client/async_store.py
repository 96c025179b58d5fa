"""`AsyncOctoStore`: the library's interface for asyncio. The contract of each method is that of `OctoStore`."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, Self

from octostore.client.async_hold import (
    AsyncHeldClaim,
    check_ttl_is_safe_async,
    claim_to_hold_async,
    refresh_if_old_async,
)
from octostore.client.async_session import AsyncSession
from octostore.client.async_work import AsyncHandler, AsyncWorkLoop
from octostore.client.calls import Blocks, Calls, build
from octostore.client.claiming import ClaimCall, HoldCall, claim_async
from octostore.client.hold import LONG_AGO, granted
from octostore.client.methods import Awaiting, P
from octostore.client.port import AsyncPort
from octostore.client.reader import Questions, log_question
from octostore.client.session import Session
from octostore.client.store import CONCURRENCY_MAX, OctoStore
from octostore.client.threads import in_thread
from octostore.client.verification import OnEvent
from octostore.client.work import AnyClaim
from octostore.client.work_limits import WorkLimits
from octostore.core import questions as q
from octostore.core.errors import InvalidInput
from octostore.core.events import Event
from octostore.core.limits import PAGE_MAX, TTL_DEFAULT_SECONDS, check_whole
from octostore.core.model import Status
from octostore.core.paging import pages_async
from octostore.core.replies import ClaimReply, JobPage, SessionReply
from octostore.core.verify import Verification
from octostore.stores.base import OnStep
from octostore.stores.clock import boottime
from octostore.stores.loop_flag import LoopFlag


def held_async(
    make: Callable[Concatenate[Any, P], HoldCall],
) -> Callable[Concatenate[Any, P], AbstractAsyncContextManager[AsyncHeldClaim]]:
    @wraps(make)
    @asynccontextmanager
    async def method(self: Any, /, *args: P.args, **options: P.kwargs) -> AsyncIterator[AsyncHeldClaim]:
        call, ttl, outcome, on_lost = make(self, *args, **options)
        await check_ttl_is_safe_async(ttl)
        claim = AsyncHeldClaim(self._port, await claim_to_hold_async(self._port, *call), on_lost=on_lost)
        claim.end_as(outcome)
        async with claim:
            yield claim

    return method


def opened_async(
    make: Callable[Concatenate[Any, P], ClaimCall[SessionReply]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncSession]]:
    @wraps(make)
    async def method(self: Any, /, *args: P.args, **options: P.kwargs) -> AsyncSession:
        lost = LoopFlag()
        asked_at = boottime()
        reply = await claim_async(self._port, *make(self, *args, **options))
        return AsyncSession(Session(self._port.blocking, reply, asked_at, on_lost=lost.set), lost.event)

    return method


class AsyncOctoStore(Awaiting, Calls, Questions):
    """`OctoStore` with every method awaited (`hold` and `events` are used with `async`). Made by `connect_async()`."""

    def __init__(self, port: AsyncPort) -> None:
        self._port = port

    hold = held_async(Blocks.hold)
    open_session = opened_async(Blocks.open_session)

    def job_pages(
        self,
        prefix: str | None = None,
        *,
        status: Status | None = None,
        queue: str | None = None,
        owner: str | None = None,
        kind: str | None = None,
        limit: int = PAGE_MAX,
        order: q.Order = "name",
    ) -> AsyncIterator[JobPage]:
        """See `OctoStore.job_pages`."""
        question = q.ListJobs(
            prefix=prefix, status=status, queue=queue, owner=owner, kind=kind, limit=limit, order=order
        )
        return pages_async(self._port.ask, question)

    @asynccontextmanager
    async def keep(
        self, reply: ClaimReply, *, asked_at: float = LONG_AGO, on_lost: Callable[[], None] | None = None
    ) -> AsyncIterator[AsyncHeldClaim]:
        """See `OctoStore.keep`."""
        answer = await refresh_if_old_async(self._port, granted(reply, asked_at))
        async with AsyncHeldClaim(self._port, answer, on_lost=on_lost) as claim:
            yield claim

    # Queues

    async def work(
        self,
        queue: str,
        handler: AsyncHandler,
        *,
        kinds: Sequence[str] | None = None,
        owner: str | None = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        max_silence: float | None = None,
        concurrency: int = 1,
        stop: asyncio.Event | None = None,
        until_empty: bool = False,
        until_done: bool = False,
        max_jobs: int | None = None,
    ) -> int:
        """See `OctoStore.work`; the handler is a coroutine function, which a second signal cancels."""
        limits = WorkLimits(until_empty=until_empty, until_done=until_done, max_jobs=max_jobs)
        claim = build.claim_next(
            queue, kinds=kinds, owner=owner, ttl=ttl, max_silence=max_silence, until_done=until_done
        )
        return await self._run_loop(claim.command, ttl, handler, concurrency, stop, limits=limits)

    async def work_session(
        self,
        session_id: str,
        handler: AsyncHandler,
        *,
        agent: str | None = None,
        queues: Sequence[str] = ("default",),
        kinds: Sequence[str] | None = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        max_silence: float | None = None,
        stop: asyncio.Event | None = None,
        until_empty: bool = False,
    ) -> int:
        """See `OctoStore.work_session`; the handler is a coroutine function."""
        claim = build.claim_task(session_id, agent, queues=queues, kinds=kinds, ttl=ttl, max_silence=max_silence)
        return await self._run_loop(claim.command, ttl, handler, 1, stop, limits=WorkLimits(until_empty=until_empty))

    # The log

    def events(
        self,
        after: int = 0,
        *,
        job_id: str | None = None,
        prefix: str | None = None,
        session_id: str | None = None,
        since: datetime | None = None,
        types: Sequence[str] | None = None,
        follow: bool = False,
    ) -> AsyncIterator[Event]:
        """See `OctoStore.events`."""
        question = log_question(since, types, after=after, job_id=job_id, prefix=prefix, session_id=session_id)
        if follow:
            return self._port.follow(question)
        return (event async for page in pages_async(self._port.ask, question) for event in page.events)

    async def verify(self, on_event: OnEvent | None = None) -> Verification:
        """See `OctoStore.verify`; `on_event` is called from another thread."""
        return await in_thread(OctoStore(self._port.blocking).verify, on_event)

    async def backup(self, path: str | os.PathLike[str], on_step: OnStep | None = None) -> int:
        """Copy the embedded store, as it is now, to a new file, while others go on writing; see `OctoStore.backup`."""
        return await in_thread(self._port.blocking.back_up, os.fspath(path), on_step)

    async def close(self) -> None:
        """See `OctoStore.close`."""
        await self._port.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def _run_loop(
        self,
        claim: AnyClaim,
        ttl: float,
        handler: AsyncHandler,
        concurrency: int,
        stop: asyncio.Event | None,
        *,
        limits: WorkLimits,
    ) -> int:
        check_whole("concurrency", concurrency, 1, CONCURRENCY_MAX)
        if not callable(handler):
            raise InvalidInput("handler", "must be a coroutine function of one claim")
        await check_ttl_is_safe_async(ttl)
        loop = AsyncWorkLoop(self._port, claim, handler, stop or asyncio.Event(), limits)
        return await loop.run(concurrency)
