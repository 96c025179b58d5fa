"""The sessions the agent has opened through this process. Their leases never leave it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from octostore.client.async_session import AsyncSession
from octostore.client.async_store import AsyncOctoStore
from octostore.core.errors import LeaseLost, LimitExceeded, OctoStoreError
from octostore.core.model import Phase
from octostore.core.replies import ClaimReply, HandedOverReply, InFlight
from octostore.mcp import texts
from octostore.mcp.arguments import ClaimTask, OneSession, OpenSession, Task
from octostore.mcp.claims import RELEASE_SECONDS, Claims
from octostore.mcp.own import NotHeld, Report
from octostore.mcp.results import Opened, opened_result
from octostore.mcp.silence import Silence
from octostore.stores.clock import boottime

SESSIONS_MAX = 20
"""The maximum number of sessions kept alive, for the same reasons as `CLAIMS_MAX`."""


class AgentSession:
    """A session with a heartbeat. The claims bound to it end with it."""

    def __init__(self, session: AsyncSession, claims: Claims) -> None:
        self.session_id = session.session_id
        self.is_over = False
        self.is_loss_reported = False
        """Whether the agent has been notified of a loss."""
        self.made_in = asyncio.current_task()
        """The call that opened it."""
        self._is_ending = False
        self._session = session
        self._claims = claims

    @property
    def is_lost(self) -> bool:
        return not self.is_over and not self._is_ending and self._session.remaining() <= 0

    async def claim_task(self, store: AsyncOctoStore, wanted: Task) -> ClaimReply:
        reply = self._session.reply
        return await store.claim_task(
            self.session_id,
            reply.agent,
            lease_id=reply.lease_id,
            queues=[wanted.queue],
            kinds=wanted.kinds,
            wait=wanted.wait,
        )

    async def save(self, context: object, phase: Phase | None) -> Phase:
        await self._session.save(context, phase=phase)
        return self._session.phase

    async def hand_over(self, to_agent: str, note: str | None) -> HandedOverReply:
        with self._ending():
            reply = await self._session.hand_over(to_agent, note)
        await self._end()
        return reply

    async def close(self) -> None:
        try:
            with self._ending():
                await self._session.close()
        except LeaseLost:
            await self._end()
            raise
        await self._end()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Stops the heartbeat first, so that this is not reported to the agent as a loss."""
        self._is_ending = True
        try:
            yield
        finally:
            self._is_ending = False

    async def _end(self) -> None:
        self.is_over = True
        await self._claims.end_bound_to(self.session_id)


class Sessions:
    def __init__(self, claims: Claims, report: Report) -> None:
        self._claims = claims
        self._report = report
        self._kept: dict[str, AgentSession] = {}
        self._pending_notices: list[str] = []
        """Undelivered notices about sessions that the agent did not end itself."""

    @property
    def current(self) -> list[AgentSession]:
        return [kept for kept in self._kept.values() if not kept.is_over]

    @property
    def _alive(self) -> list[AgentSession]:
        return [kept for kept in self.current if not kept.is_lost]

    async def open(self, store: AsyncOctoStore, agent: str | None, wanted: OpenSession) -> Opened:
        if len(self._alive) >= SESSIONS_MAX:
            raise LimitExceeded(f"this server already keeps {SESSIONS_MAX} sessions alive", limit=SESSIONS_MAX)
        asked_at = boottime()
        session = await store.open_session(agent, ttl=wanted.ttl, session_id=wanted.session_id)
        await session.__aenter__()
        self._kept[session.session_id] = AgentSession(session, self._claims)
        for job in session.in_flight:
            if job.is_ours:
                await self._claims.keep(store, _claim_of(job, session), asked_at)
        return opened_result(session.reply)

    async def find(self, _store: AsyncOctoStore, named: OneSession | ClaimTask) -> AgentSession:
        kept = self._kept.get(named.session_id)
        if kept is None or kept.is_over:
            raise NotHeld(f"session {named.session_id!r} is not open here; open_session opens or resumes it")
        return kept

    def notices(self) -> list[str]:
        lost = [kept for kept in self.current if kept.is_lost and not kept.is_loss_reported]
        for kept in lost:
            kept.is_loss_reported = True
        pending, self._pending_notices = self._pending_notices, []
        return [*pending, *(texts.session_loss_text(kept.session_id) for kept in lost)]

    async def release_silent(self, silence: Silence) -> None:
        """Let others have the sessions immediately. Those that cannot be closed now are kept, to try again."""
        for kept in self._alive:
            if not silence.lasts():
                return
            try:
                await kept.close()
            except OctoStoreError as error:
                self._report(f"could not close session {kept.session_id}, whose agent is silent: {error}")
                if isinstance(error, LeaseLost):
                    self._pending_notices.append(texts.session_loss_text(kept.session_id))
            else:
                self._pending_notices.append(texts.silent_text(texts.all_of(kept.session_id), silence.seconds))

    async def undo(self, call: "asyncio.Task[Any] | None") -> None:
        """The client cancelled the call and drops its result, so the agent does not know what was opened."""
        for kept in [kept for kept in self.current if kept.made_in is call]:
            await _closed(kept)
            self._pending_notices.append(texts.cancelled_text(texts.all_of(kept.session_id)))

    async def close(self) -> None:
        """As far as time allows. Their contexts stay, for the next owner."""
        closing = [asyncio.create_task(_closed(kept)) for kept in self._alive]
        if closing:
            await asyncio.wait(closing, timeout=RELEASE_SECONDS)


async def _closed(kept: AgentSession) -> None:
    with suppress(OctoStoreError):
        await kept.close()


def _claim_of(job: InFlight, session: AsyncSession) -> ClaimReply:
    """A claim that was handed over alive with its session, in the form of a reply to a claim."""
    reply = session.reply
    return ClaimReply(
        status="claimed",
        job_id=job.job_id,
        queue=job.queue,
        kind=job.kind,
        owner=reply.agent,
        fencing_token=job.fencing_token,
        attempt=job.attempts + 1,
        claimed_at=reply.opened_at,
        session_id=reply.session_id,
        lease_id=reply.lease_id,
        ttl=reply.ttl,
        remaining_ms=reply.remaining_ms,
    )
