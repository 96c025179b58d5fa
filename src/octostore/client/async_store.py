"""`AsyncOctoStore`: the library's interface for asyncio. The contract of each method is that of `OctoStore`."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Self

from octostore.client.async_hold import AsyncHeldClaim, ask_for_async, refreshed_async
from octostore.client.async_session import AsyncSession
from octostore.client.async_work import AsyncHandler, AsyncWorkLoop
from octostore.client.calls import AsyncCalls, Calls, calls
from octostore.client.claiming import HoldCall, claim_async
from octostore.client.hold import LONG_AGO, granted
from octostore.client.methods import P
from octostore.client.port import AsyncPort
from octostore.client.session import Session
from octostore.client.store import CONCURRENCY_MAX, OctoStore
from octostore.client.threads import in_thread
from octostore.client.verification import OnEvent
from octostore.client.work import AnyClaim
from octostore.core import commands as c
from octostore.core import questions as q
from octostore.core.errors import InvalidInput
from octostore.core.events import Event
from octostore.core.health import Health, Thresholds, judge
from octostore.core.limits import PAGE_DEFAULT, PAGE_MAX, TTL_DEFAULT_SECONDS, check_whole
from octostore.core.model import Scope, SessionStatus, Status
from octostore.core.paging import pages_async
from octostore.core.replies import (
    ClaimReply,
    Figures,
    JobOwner,
    JobPage,
    JobView,
    PrincipalView,
    Recovery,
    SessionView,
    TokenView,
)
from octostore.core.verify import Verification
from octostore.stores.base import OnStep
from octostore.stores.clock import boottime
from octostore.stores.loop_flag import LoopFlag
from octostore.wire.answers import NewToken
from octostore.wire.tokens import new_token


def held_async(
    make: Callable[Concatenate[Any, P], HoldCall],
) -> Callable[Concatenate[Any, P], AbstractAsyncContextManager[AsyncHeldClaim]]:
    @wraps(make)
    @asynccontextmanager
    async def method(self: Any, /, *args: P.args, **options: P.kwargs) -> AsyncIterator[AsyncHeldClaim]:
        call, outcome, on_lost = make(self, *args, **options)
        claim = AsyncHeldClaim(self._port, await ask_for_async(self._port, *call), on_lost=on_lost)
        claim.end_as(outcome)
        async with claim:
            yield claim

    return method


class AsyncOctoStore(AsyncCalls):
    """`OctoStore` with every method awaited (`hold` and `events` are used with `async`). Made by `connect_async()`."""

    def __init__(self, port: AsyncPort) -> None:
        self._port = port

    # Jobs

    hold = held_async(Calls.hold)

    async def get_job_owner(self, job_id: str) -> JobOwner | None:
        """See `OctoStore.get_job_owner`."""
        return (await self.get_job(job_id)).claim

    async def get_job(self, job_id: str) -> JobView:
        """See `OctoStore.get_job`."""
        return await self._port.ask(q.GetJob(job_id=job_id))

    async def list_claimed_jobs(self, prefix: str | None = None) -> list[JobOwner]:
        """See `OctoStore.list_claimed_jobs`."""
        found = self.job_pages(prefix, status="claimed")
        return [job.claim async for page in found for job in page.jobs if job.claim is not None]

    async def list_jobs(
        self,
        prefix: str | None = None,
        *,
        status: Status | None = None,
        queue: str | None = None,
        limit: int = PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> JobPage:
        """See `OctoStore.list_jobs`."""
        return await self._port.ask(q.ListJobs(prefix=prefix, status=status, queue=queue, limit=limit, cursor=cursor))

    def job_pages(
        self,
        prefix: str | None = None,
        *,
        status: Status | None = None,
        queue: str | None = None,
        limit: int = PAGE_MAX,
    ) -> AsyncIterator[JobPage]:
        """See `OctoStore.job_pages`."""
        return pages_async(self._port.ask, q.ListJobs(prefix=prefix, status=status, queue=queue, limit=limit))

    @asynccontextmanager
    async def keep(
        self, reply: ClaimReply, *, asked_at: float = LONG_AGO, on_lost: Callable[[], None] | None = None
    ) -> AsyncIterator[AsyncHeldClaim]:
        """See `OctoStore.keep`."""
        answer = await refreshed_async(self._port, granted(reply, asked_at))
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
        concurrency: int = 1,
        stop: asyncio.Event | None = None,
        until_empty: bool = False,
    ) -> int:
        """See `OctoStore.work`; the handler is a coroutine function."""
        claim = calls.claim_next(queue, kinds=kinds, owner=owner, ttl=ttl)
        return await self._run_loop(claim.command, handler, concurrency, stop, until_empty=until_empty)

    async def work_session(
        self,
        session_id: str,
        handler: AsyncHandler,
        *,
        agent: str | None = None,
        queues: Sequence[str] = ("default",),
        kinds: Sequence[str] | None = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        stop: asyncio.Event | None = None,
        until_empty: bool = False,
    ) -> int:
        """See `OctoStore.work_session`; the handler is a coroutine function."""
        claim = calls.claim_task(session_id, agent, queues=queues, kinds=kinds, ttl=ttl)
        return await self._run_loop(claim.command, handler, 1, stop, until_empty=until_empty)

    async def dead_jobs(self, prefix: str | None = None, *, queue: str | None = None) -> list[JobView]:
        """See `OctoStore.dead_jobs`."""
        return [job async for page in self.job_pages(prefix, status="dead", queue=queue) for job in page.jobs]

    # Sessions

    async def open_session(
        self,
        agent: str | None = None,
        *,
        ttl: float = TTL_DEFAULT_SECONDS,
        session_id: str | None = None,
        request_id: str | None = None,
    ) -> AsyncSession:
        """See `OctoStore.open_session`."""
        lost = LoopFlag()
        asked_at = boottime()
        reply = await claim_async(self._port, *calls.open_session(agent, ttl, session_id, request_id))
        return AsyncSession(Session(self._port.blocking, reply, asked_at, on_lost=lost.set), lost.event)

    async def get_session(self, session_id: str) -> SessionView:
        """See `OctoStore.get_session`."""
        return await self._port.ask(q.GetSession(session_id=session_id))

    async def list_sessions(self, *, status: SessionStatus | None = None) -> list[SessionView]:
        """See `OctoStore.list_sessions`."""
        found = pages_async(self._port.ask, q.ListSessions(status=status, limit=PAGE_MAX))
        return [session async for page in found for session in page.sessions]

    # Tokens

    async def whoami(self) -> PrincipalView:
        """See `OctoStore.whoami`."""
        return await self._port.ask(q.WhoAmI())

    async def create_token(
        self,
        name: str,
        *,
        scopes: Sequence[Scope] = ("read", "claim"),
        prefix: str = "",
        expires_in: float | None = None,
    ) -> NewToken:
        """Let somebody use the store through a server, as `name`. For operators.

        The reply's `token` is the secret, and this is the only time it is told. `scopes` are `read`, `claim` (which
        includes enqueueing) and `admin` (everything); `prefix` limits it to names that begin with it.
        """
        token = new_token()
        command = calls.create_token(token, name, scopes, prefix, expires_in)
        return NewToken.of(await self._port.execute(command), token)

    async def list_tokens(self) -> list[TokenView]:
        """All tokens that were made, newest first, also those that are over. For operators."""
        return (await self._port.ask(q.ListTokens())).tokens

    # Log and recovery

    def events(
        self,
        after: int = 0,
        *,
        job_id: str | None = None,
        prefix: str | None = None,
        session_id: str | None = None,
        follow: bool = False,
    ) -> AsyncIterator[Event]:
        """See `OctoStore.events`."""
        question = q.ListEvents(after=after, job_id=job_id, prefix=prefix, session_id=session_id, limit=PAGE_MAX)
        if follow:
            return self._port.follow(question)
        return (event async for page in pages_async(self._port.ask, question) for event in page.events)

    async def verify(self, on_event: OnEvent | None = None) -> Verification:
        """See `OctoStore.verify`; `on_event` is called from another thread."""
        return await in_thread(OctoStore(self._port.blocking).verify, on_event)

    async def figures(self) -> Figures:
        """See `OctoStore.figures`."""
        return await self._port.ask(q.GetFigures())

    async def health(self, thresholds: Thresholds | None = None) -> Health:
        """See `OctoStore.health`."""
        return judge(await self.figures(), await self.list_sessions(status="open"), thresholds or Thresholds())

    async def recover(self) -> list[Recovery]:
        """See `OctoStore.recover`."""
        recovered: list[Recovery] = []
        is_complete = False
        while not is_complete:
            step = await self._port.execute(c.Recover())
            recovered += step.recovered
            is_complete = step.is_complete
        return recovered

    async def backup(self, path: str | os.PathLike[str], on_step: OnStep = lambda _done, _all: None) -> int:
        """Copy the embedded store, as it is now, to a new file, while others go on writing; see `OctoStore.backup`."""
        return await in_thread(self._port.blocking.back_up, os.fspath(path), on_step)

    async def close(self) -> None:
        """See `OctoStore.close`."""
        await self._port.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _run_loop(
        self,
        claim: AnyClaim,
        handler: AsyncHandler,
        concurrency: int,
        stop: asyncio.Event | None,
        *,
        until_empty: bool,
    ) -> int:
        check_whole("concurrency", concurrency, 1, CONCURRENCY_MAX)
        if not callable(handler):
            raise InvalidInput("handler", "must be a coroutine function of one claim")
        loop = AsyncWorkLoop(self._port, claim, handler, stop or asyncio.Event(), until_empty)
        return await loop.run(concurrency)
