"""The claims held by this process. An agent names them by job; the lease never leaves the process."""

import asyncio
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any

import msgspec

from octostore.client.async_hold import AsyncHeldClaim
from octostore.client.async_store import AsyncOctoStore
from octostore.core.encoding import shorten
from octostore.core.errors import LeaseLost, LimitExceeded, NotFound, OctoStoreError
from octostore.core.limits import NOTE_BYTES
from octostore.core.model import Outcome
from octostore.core.replies import CheckpointReply, ClaimReply, HeartbeatReply, JobOwner, ReleaseReply
from octostore.mcp import texts
from octostore.mcp.arguments import OneClaim
from octostore.mcp.own import NotHeld, Report
from octostore.mcp.results import MyClaim, claim_result, has_task_result
from octostore.mcp.silence import Silence

CLAIMS_MAX = 100
"""The maximum number of claims kept alive. An agent in a loop would otherwise keep ever more jobs from others, and at
exit there would not be time to release them all."""
OVER_KEPT = 100
"""How many ended claims are remembered, to repeat a release and to explain a refused write."""
RELEASE_SECONDS = 1.5
"""How long releasing may take at exit; clients kill a server that has not exited after two seconds."""
LOOK_SECONDS = 2.0
"""How long to look up who has a lost job now. The loss must be reported soon, and often the store is unreachable."""
LEFT = "the agent's session ended before it released the job"
CANCELLED = "the claiming call was cancelled"


class AgentClaim:
    """A claim with a heartbeat: alive until it is released, lost, or this process ends."""

    def __init__(self, store: AsyncOctoStore, claim: AsyncHeldClaim, block: AsyncExitStack) -> None:
        self.job_id = claim.job_id
        self.is_over = False
        self.is_loss_reported = False
        """Whether the agent has been notified of a loss."""
        self.is_stop_reported = False
        self.session_id = claim.reply.session_id
        self.made_in = asyncio.current_task()
        """The call that claimed it."""
        self._store = store
        self._claim = claim
        self._block = block
        self._note: str | None = None
        """The agent's last progress note."""
        self._loss: LeaseLost | None = None
        """Set when the store refuses a write."""

    @property
    def is_lost(self) -> bool:
        return not self.is_over and (self._loss is not None or self._claim.remaining() <= 0)

    @property
    def stop_reason(self) -> str | None:
        return self._claim.stop_reason

    @property
    def is_to_stop(self) -> bool:
        """Someone wants the agent to stop working on it; it is still the agent's."""
        return not self.is_over and not self.is_lost and self._claim.stop_requested.is_set()

    def is_claim_of(self, seen: ClaimReply | JobOwner) -> bool:
        return not self.is_over and self._claim.fencing_token == seen.fencing_token

    async def progress(self, note: str | None, percent: float | None) -> HeartbeatReply:
        await self._check()
        with self._noticing_loss():
            reply = await self._store.heartbeat_job(
                self.job_id,
                self._claim.lease_id,
                progress=note,
                percent=percent,
                fencing_token=self._claim.fencing_token,
            )
        self._claim.take_reply(reply)
        self._note = note or self._note
        return reply

    async def checkpoint(self, data: Any) -> CheckpointReply:
        await self._check()
        with self._noticing_loss():
            reply = await self._store.checkpoint_job(
                self.job_id, self._claim.lease_id, data, fencing_token=self._claim.fencing_token
            )
        self._claim.take_reply(reply)
        return reply

    async def release(self, outcome: Outcome = "released", **details: Any) -> ReleaseReply:
        """Attempted even if the lease counts as lost here, or was released before: the store knows better."""
        try:
            reply = await self._store.release_job(
                self.job_id, self._claim.lease_id, outcome, fencing_token=self._claim.fencing_token, **details
            )
        except LeaseLost:
            await self.stop()
            raise
        await self.stop()
        return reply

    async def release_for_others(self, report: Report, why: str = LEFT) -> None:
        """Release it for the next owner immediately, without an attempt; checkpoint and notes stay with the job."""
        try:
            await self.release(error=why)
            report(f"released {self.job_id}")
        except OctoStoreError as error:
            report(f"could not release {self.job_id}: {error}; its lease will expire")

    async def release_with_note(self, why: str) -> None:
        """Release it with a note that says why. No attempt is counted."""
        last = f"; its last report was: {self._note}" if self._note else ""
        await self.release(note=shorten(why + last, NOTE_BYTES))

    async def stop(self) -> None:
        """Stop the heartbeats. The lease is remembered, in case a release is repeated."""
        self.is_over = True
        self._claim.let_expire()
        await self._block.aclose()

    async def view(self) -> MyClaim:
        reply = self._claim.reply
        view = MyClaim(
            job_id=self.job_id,
            status="lost" if self.is_lost else "claimed",
            stuck=self._claim.stuck,
            is_to_stop=self.is_to_stop,
            stop_reason=self.stop_reason,
            owner=reply.owner or "",
            attempt=self._claim.attempt,
            fencing_token=self._claim.fencing_token,
            claimed_at=reply.claimed_at,
            ttl=self._claim.ttl,
            remaining_seconds=round(self._claim.remaining(), 1),
        )
        try:
            await self._check()
        except (LeaseLost, NotFound) as error:
            view.why = str(error)
            view.holder = getattr(error, "holder", None)
        return view

    @contextmanager
    def _noticing_loss(self) -> Iterator[None]:
        """The store may know of a loss before the heartbeat does."""
        try:
            yield
        except LeaseLost as lost:
            self._loss, self.is_loss_reported = lost, True
            raise

    async def _check(self) -> None:
        """Raises `LeaseLost` for a lost claim, with who has the job now."""
        if not self.is_lost:
            return
        self.is_loss_reported = True
        try:
            if self._loss is not None:
                raise self._loss
            self._claim.check()
        except LeaseLost as lost:
            with suppress(OctoStoreError, TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    holder = await self._store.get_job_owner(self.job_id)
                # If the store was unreachable, it may still list us as the owner.
                lost.holder = None if holder is None or self.is_claim_of(holder) else holder
            raise


class Claims:
    """By job. Ended claims stay for a while, and are then forgotten."""

    def __init__(self, report: Report) -> None:
        self._kept: dict[str, AgentClaim] = {}
        self._pending_notices: list[str] = []
        """Undelivered notices about claims that the agent did not end itself."""
        self._report = report

    @property
    def current(self) -> list[AgentClaim]:
        """Those that have not ended: alive, or lost and not yet given up."""
        return [kept for kept in self._kept.values() if not kept.is_over]

    async def find(self, store: AsyncOctoStore, named: OneClaim) -> AgentClaim:
        kept = self._kept.get(named.job_id)
        if kept is None:
            holder = await store.get_job_owner(named.job_id)
            nobody = "; nobody has it" if holder is None else ""
            raise NotHeld(f"job {named.job_id!r} was not claimed through this server{nobody}", holder)
        return kept

    def has(self, seen: ClaimReply | JobOwner) -> bool:
        kept = self._kept.get(seen.job_id or "")
        return kept is not None and kept.is_claim_of(seen)

    def has_task(self, reply: ClaimReply) -> msgspec.Struct:
        return has_task_result(reply)

    async def views(self, _store: AsyncOctoStore) -> list[MyClaim]:
        return await asyncio.gather(*(kept.view() for kept in self.current))

    @property
    def _alive(self) -> list[AgentClaim]:
        return [kept for kept in self.current if not kept.is_lost]

    def check_room(self) -> None:
        if len(self._alive) >= CLAIMS_MAX:
            problem = f"this server already keeps {CLAIMS_MAX} claims alive, which is the maximum"
            raise LimitExceeded(problem, limit=CLAIMS_MAX)

    async def keep(self, store: AsyncOctoStore, reply: ClaimReply, asked_at: float) -> msgspec.Struct:
        """Send heartbeats for a claim that was just made, in reply to a call sent at `asked_at`."""
        job_id = reply.job_id or ""
        block = AsyncExitStack()
        try:
            claim = await block.enter_async_context(
                store.keep(reply, asked_at=asked_at, on_lost=lambda: self._report(f"the lease on {job_id} is lost"))
            )
        except BaseException:
            # The caller is gone or cannot get the reply: nobody would ever release it.
            releasing = asyncio.ensure_future(store.release_job(job_id, reply.lease_id or ""))
            with suppress(OctoStoreError, TimeoutError):
                await asyncio.wait_for(asyncio.shield(releasing), RELEASE_SECONDS)
            raise
        before = self._kept.pop(job_id, None)
        self._kept[job_id] = AgentClaim(store, claim, block)
        if before is not None and not before.is_over:
            await before.stop()  # it was lost, or the store would not have given the job to someone else
        self._forget()
        return claim_result(reply, held_here=True)

    def notices(self) -> list[str]:
        """Each is returned once."""
        pending, self._pending_notices = self._pending_notices, []
        return [*pending, *self._unreported_losses(), *self._unreported_stops()]

    def _unreported_losses(self) -> Iterator[str]:
        for kept in self.current:
            if kept.is_lost and not kept.is_loss_reported:
                kept.is_loss_reported = True
                yield texts.loss_text(kept.job_id)

    def _unreported_stops(self) -> Iterator[str]:
        for kept in self.current:
            if kept.is_to_stop and not kept.is_stop_reported:
                kept.is_stop_reported = True
                yield texts.stop_text(kept.job_id, kept.stop_reason)

    async def release_silent(self, silence: Silence) -> None:
        """Claims that cannot be released now are kept, to try again."""
        for kept in self._alive:
            if not silence.lasts():
                return
            try:
                await kept.release_with_note(texts.silent_note(silence.seconds))
            except OctoStoreError as error:
                self._report(f"could not release {kept.job_id}, whose agent is silent: {error}")
                if isinstance(error, LeaseLost):
                    self._pending_notices.append(texts.loss_text(kept.job_id))
            else:
                self._report(f"released {kept.job_id}: {texts.silent_note(silence.seconds)}")
                self._pending_notices.append(texts.silent_text(repr(kept.job_id), silence.seconds))

    async def undo(self, call: "asyncio.Task[Any] | None") -> None:
        """The client cancelled the call and drops its result, so the agent does not know what was claimed."""
        for kept in [kept for kept in self.current if kept.made_in is call]:
            await kept.release_for_others(self._report, CANCELLED)
            await kept.stop()
            self._pending_notices.append(texts.cancelled_text(repr(kept.job_id)))

    async def end_bound_to(self, session_id: str) -> None:
        """The session has ended, and so have its claims: the store has released them or handed them over."""
        for kept in self.current:
            if kept.session_id == session_id:
                await kept.stop()

    async def close(self, but_not_bound_to: AbstractSet[str] = frozenset()) -> None:
        """Release what is still held, as far as time allows. No heartbeats are sent after this."""
        held = [kept for kept in self._alive if kept.session_id not in but_not_bound_to]
        alive = [asyncio.create_task(kept.release_for_others(self._report)) for kept in held]
        if alive:
            await asyncio.wait(alive, timeout=RELEASE_SECONDS)
        for task in alive:
            task.cancel()
        for kept in self.current:
            await kept.stop()

    def _forget(self) -> None:
        over = [job_id for job_id, kept in self._kept.items() if kept.is_over]
        for job_id in over[: max(0, len(over) - OVER_KEPT)]:
            del self._kept[job_id]
