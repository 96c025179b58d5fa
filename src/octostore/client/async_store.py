"""`AsyncOctoStore`: the library's interface for asyncio. The contract of each method is that of `OctoStore`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from octostore.client import requests
from octostore.client.async_hold import AsyncHeldClaim, ask_for_async, refreshed_async
from octostore.client.async_session import AsyncSession
from octostore.client.async_work import AsyncHandler, AsyncWorkLoop
from octostore.client.batching import (
    Document,
    Released,
    carry_out_all_async,
    carry_out_async,
    commands_of,
    lease_of,
)
from octostore.client.claiming import claim_async
from octostore.client.hold import LONG_AGO, granted
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
from octostore.core.limits import (
    MAX_ATTEMPTS_DEFAULT,
    PAGE_DEFAULT,
    PAGE_MAX,
    PRIORITY_DEFAULT,
    TTL_DEFAULT_SECONDS,
    check_whole,
)
from octostore.core.model import Outcome, Phase, Scope, SessionStatus, Status
from octostore.core.paging import pages_async
from octostore.core.replies import (
    CheckpointReply,
    ClaimReply,
    EnqueueReply,
    Figures,
    HandedOverReply,
    HeartbeatReply,
    JobOwner,
    JobPage,
    JobView,
    KeepaliveReply,
    PrincipalView,
    ProbeReply,
    QueueView,
    Recovery,
    ReleaseReply,
    SavedReply,
    SessionView,
    TokenView,
)
from octostore.core.verify import Verification
from octostore.stores.clock import boottime
from octostore.stores.loop_flag import LoopFlag
from octostore.wire.answers import NewToken
from octostore.wire.tokens import new_token


class AsyncOctoStore:
    """`OctoStore` with every method awaited (`hold` and `events` are used with `async`). Made by `connect_async()`."""

    def __init__(self, port: AsyncPort) -> None:
        self._port = port

    # Jobs

    async def claim_job(
        self,
        job_id: str,
        owner: str | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        *,
        wait: float = 0,
        session_id: str | None = None,
        request_id: str | None = None,
        again: bool = False,
        lock_delay: float = 0,
    ) -> ClaimReply:
        """See `OctoStore.claim_job`. A claim whose task is cancelled before the answer is given back."""
        command = requests.claim_job(
            job_id,
            owner,
            metadata,
            ttl,
            session_id=session_id,
            request_id=request_id,
            again=again,
            lock_delay=lock_delay,
        )
        return await claim_async(self._port, command, wait, is_generated=request_id is None)

    async def heartbeat_job(
        self,
        job_id: str,
        lease_id: str,
        *,
        ttl: float | None = None,
        progress: str | None = None,
        percent: float | None = None,
    ) -> HeartbeatReply:
        """See `OctoStore.heartbeat_job`."""
        return await self._port.execute(
            c.HeartbeatJob(job_id=job_id, lease_id=lease_id, ttl=ttl, note=progress, percent=percent)
        )

    async def checkpoint_job(self, job_id: str, lease_id: str, data: Any) -> CheckpointReply:
        """See `OctoStore.checkpoint_job`."""
        return await self._port.execute(requests.checkpoint_job(job_id, lease_id, data))

    async def release_job(
        self,
        job_id: str,
        lease_id: str,
        outcome: Outcome = "released",
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> ReleaseReply:
        """See `OctoStore.release_job`."""
        return await self._port.execute(
            requests.release_job(
                job_id, lease_id, outcome, result=result, error=error, note=note, retry_after=retry_after
            )
        )

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
    async def hold(
        self,
        job_id: str,
        *,
        owner: str | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        wait: float = 0,
        session_id: str | None = None,
        request_id: str | None = None,
        again: bool = False,
        lock_delay: float = 0,
        outcome: Outcome = "released",
        on_lost: Callable[[], None] | None = None,
    ) -> AsyncIterator[AsyncHeldClaim]:
        """See `OctoStore.hold`. `on_lost` is called from another thread, as there."""
        c.check_outcome(outcome)  # before anything is claimed
        command = requests.claim_job(
            job_id,
            owner,
            metadata,
            ttl,
            session_id=session_id,
            request_id=request_id,
            again=again,
            lock_delay=lock_delay,
        )
        granted = await ask_for_async(self._port, command, wait, is_generated=request_id is None)
        claim = AsyncHeldClaim(self._port, granted, on_lost=on_lost)
        claim.end_as(outcome)
        async with claim:
            yield claim

    @asynccontextmanager
    async def keep(
        self, reply: ClaimReply, *, asked_at: float = LONG_AGO, on_lost: Callable[[], None] | None = None
    ) -> AsyncIterator[AsyncHeldClaim]:
        """See `OctoStore.keep`."""
        answer = await refreshed_async(self._port, granted(reply, asked_at))
        async with AsyncHeldClaim(self._port, answer, on_lost=on_lost) as claim:
            yield claim

    # Queues

    async def enqueue(
        self,
        kind: str,
        payload: Any = None,
        *,
        job_id: str | None = None,
        queue: str = "default",
        priority: int = PRIORITY_DEFAULT,
        run_at: datetime | None = None,
        max_attempts: int = MAX_ATTEMPTS_DEFAULT,
    ) -> EnqueueReply:
        """See `OctoStore.enqueue`."""
        return await self._port.execute(
            requests.enqueue(
                kind,
                payload,
                job_id=job_id,
                queue=queue,
                priority=priority,
                run_at=run_at,
                max_attempts=max_attempts,
            )
        )

    async def claim_next(
        self,
        queue: str = "default",
        *,
        kinds: Sequence[str] | None = None,
        owner: str | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        wait: float = 0,
        session_id: str | None = None,
        request_id: str | None = None,
    ) -> ClaimReply:
        """See `OctoStore.claim_next`."""
        command = requests.claim_next(
            queue,
            kinds=kinds,
            owner=owner,
            metadata=metadata,
            ttl=ttl,
            session_id=session_id,
            request_id=request_id,
        )
        return await claim_async(self._port, command, wait, is_generated=request_id is None)

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
        claim = requests.claim_next(
            queue, kinds=kinds, owner=owner, metadata=None, ttl=ttl, session_id=None, request_id=None
        )
        return await self._run_loop(claim, handler, concurrency, stop, until_empty=until_empty)

    async def claim_task(
        self,
        session_id: str,
        agent: str | None = None,
        *,
        queues: Sequence[str] = ("default",),
        kinds: Sequence[str] | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        wait: float = 0,
        request_id: str | None = None,
    ) -> ClaimReply:
        """See `OctoStore.claim_task`."""
        command = requests.claim_task(
            session_id, agent, queues=queues, kinds=kinds, metadata=metadata, ttl=ttl, request_id=request_id
        )
        return await claim_async(self._port, command, wait, is_generated=request_id is None)

    async def release_task(
        self,
        session_id: str,
        job_id: str,
        lease_id: str,
        outcome: Outcome = "done",
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> ReleaseReply:
        """See `OctoStore.release_task`."""
        return await self._port.execute(
            requests.release_task(
                session_id, job_id, lease_id, outcome, result=result, error=error, note=note, retry_after=retry_after
            )
        )

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
        claim = requests.claim_task(
            session_id, agent, queues=queues, kinds=kinds, metadata=None, ttl=ttl, request_id=None
        )
        return await self._run_loop(claim, handler, 1, stop, until_empty=until_empty)

    async def dead_jobs(self, prefix: str | None = None, *, queue: str | None = None) -> list[JobView]:
        """See `OctoStore.dead_jobs`."""
        return [job async for page in self.job_pages(prefix, status="dead", queue=queue) for job in page.jobs]

    async def requeue(self, job_id: str, *, reason: str | None = None, keep_attempts: bool = False) -> JobView:
        """See `OctoStore.requeue`."""
        return await self._port.execute(c.RequeueJob(job_id=job_id, reason=reason, keep_attempts=keep_attempts))

    async def discard(self, job_id: str, *, reason: str | None = None) -> JobView:
        """See `OctoStore.discard`."""
        return await self._port.execute(c.DiscardJob(job_id=job_id, reason=reason))

    async def cancel(self, job_id: str, *, reason: str | None = None) -> JobView:
        """See `OctoStore.cancel`."""
        return await self._port.execute(c.CancelJob(job_id=job_id, reason=reason))

    async def force_release(self, job_id: str, *, reason: str | None = None) -> JobView:
        """See `OctoStore.force_release`."""
        return await self._port.execute(c.ForceReleaseJob(job_id=job_id, reason=reason))

    async def limit_queue(self, queue: str, max_claimed: int | None) -> QueueView:
        """See `OctoStore.limit_queue`."""
        return await self._port.execute(c.LimitQueue(queue=queue, max_claimed=max_claimed))

    # Several at once

    async def batch(self, commands: Iterable[Document], *, atomic: bool = True) -> list[Any]:
        return await carry_out_async(self._port, commands_of(commands), atomic=atomic)

    async def claim_many(
        self,
        job_ids: Iterable[str],
        owner: str | None = None,
        metadata: Any = None,
        ttl: float = TTL_DEFAULT_SECONDS,
        *,
        session_id: str | None = None,
        again: bool = False,
        lock_delay: float = 0,
    ) -> list[Any]:
        claims = requests.claim_jobs(
            job_ids, owner, metadata, ttl, session_id=session_id, again=again, lock_delay=lock_delay
        )
        return await carry_out_all_async(self._port, claims)

    async def release_many(
        self,
        claims: Iterable[Released],
        outcome: Outcome = "released",
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> list[Any]:
        releases = [
            requests.release_job(
                *lease_of(claim), outcome, result=result, error=error, note=note, retry_after=retry_after
            )
            for claim in claims
        ]
        return await carry_out_all_async(self._port, releases)

    async def enqueue_many(self, jobs: Iterable[Mapping[str, Any]], **usual: Any) -> list[Any]:
        return await carry_out_all_async(self._port, requests.enqueue_each(jobs, usual))

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
        command = requests.open_session(agent, ttl, session_id, request_id)
        reply = await claim_async(self._port, command, is_generated=request_id is None)
        return AsyncSession(Session(self._port.blocking, reply, asked_at, on_lost=lost.set), lost.event)

    async def hand_over(
        self, session_id: str, to_agent: str, note: str | None = None, *, lease_id: str | None = None
    ) -> HandedOverReply:
        """See `OctoStore.hand_over`."""
        command = c.HandOverSession(session_id=session_id, lease_id=lease_id, to_agent=to_agent, note=note)
        return await self._port.execute(command)

    async def keep_session_alive(self, session_id: str, lease_id: str) -> KeepaliveReply:
        """See `OctoStore.keep_session_alive`."""
        return await self._port.execute(c.KeepSessionAlive(session_id=session_id, lease_id=lease_id))

    async def save_session(
        self, session_id: str, lease_id: str, context: Any, *, phase: Phase | None = None
    ) -> SavedReply:
        """See `OctoStore.save_session`."""
        return await self._port.execute(requests.save_session(session_id, lease_id, context, phase))

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
        command = requests.create_token(token, name, scopes=scopes, prefix=prefix, expires_in=expires_in)
        return NewToken.of(await self._port.execute(command), token)

    async def list_tokens(self) -> list[TokenView]:
        """All tokens that were made, newest first, also those that are over. For operators."""
        return (await self._port.ask(q.ListTokens())).tokens

    async def revoke_token(self, token_id: str) -> TokenView:
        """End a token for good, and the streams that it has open. Raises `NotFound`. For operators."""
        return await self._port.execute(c.RevokeToken(token_id=token_id))

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

    async def probe(self) -> ProbeReply:
        """See `OctoStore.probe`."""
        return await self._port.execute(c.Probe())

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
