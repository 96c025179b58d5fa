"""Worker loops for asyncio. See `work.py`."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from octostore.client.async_hold import AsyncHeldClaim, claim_to_hold_async, refresh_if_old_async
from octostore.client.claiming import with_new_request_id
from octostore.client.hold import Granted
from octostore.client.port import AsyncPort
from octostore.client.signals import catching_signals, exit_on
from octostore.client.work import (
    DRAINING,
    UNREACHABLE_PAUSE_SECONDS,
    WAIT_SECONDS,
    WORKER_STOPPED,
    AnyClaim,
    log,
    recording_outcome,
)
from octostore.client.work_limits import Turn, WorkLimits
from octostore.core.errors import LeaseLost, OctoStoreError, Unreachable
from octostore.core.undo import release_claim
from octostore.stores.pausing import jittered

AsyncHandler = Callable[[AsyncHeldClaim], Awaitable[Any]]


class AsyncWorkLoop(msgspec.Struct):
    """See `WorkLoop`."""

    port: AsyncPort
    claim: AnyClaim
    handler: AsyncHandler
    stop: asyncio.Event
    limits: WorkLimits
    stopped_by: signal.Signals | None = None

    async def run(self, concurrency: int) -> int:
        workers: list[asyncio.Task[int]] = []
        jobs = self.limits.jobs()
        loop = asyncio.get_running_loop()
        with catching_signals(lambda number: loop.call_soon_threadsafe(self._on_signal, workers, number)):
            async with asyncio.TaskGroup() as group:
                workers += [group.create_task(self._run_one_worker(Turn(jobs))) for _ in range(concurrency)]
        if self.stopped_by is not None:
            exit_on(self.stopped_by)
        return sum(worker.result() for worker in workers)

    def _on_signal(self, workers: "list[asyncio.Task[int]]", number: signal.Signals) -> None:
        """The second signal cancels the handlers, whose jobs are given back by that."""
        if self.stop.is_set():
            self.stopped_by = number
            for worker in workers:
                worker.cancel(number.name)
        else:
            self.stop.set()
            log.warning(DRAINING, number.name)

    async def _run_one_worker(self, turn: Turn) -> int:
        handled = 0
        asking = with_new_request_id(self.claim)
        claimed: Granted | None = None
        while not self.stop.is_set() and turn.take():
            try:
                if claimed is None:
                    answer = await self._ask(asking)
                    if answer.reply.status == "claimed":
                        claimed = answer
                    elif self.limits.is_reached(answer.reply):
                        break
                else:
                    asking = with_new_request_id(self.claim)
                    running, claimed = claimed, None
                    turn.use()
                    claimed = await self._handle(running, asking, turn)
                    handled += 1
            except LeaseLost:
                asking = with_new_request_id(self.claim)  # an answer was lost for so long that what it gave has ended
            except Unreachable as fault:
                if self.limits.until_empty or fault.reason == "closed":
                    raise
                await asyncio.sleep(jittered(UNREACHABLE_PAUSE_SECONDS))
        if claimed is not None:
            with suppress(OctoStoreError):
                await self.port.execute(release_claim(claimed.reply, WORKER_STOPPED))
        return handled

    async def _ask(self, asking: AnyClaim) -> Granted:
        return await claim_to_hold_async(self.port, asking, 0 if self.limits.until_empty else WAIT_SECONDS, False)

    async def _handle(self, granted: Granted, asking: AnyClaim, turn: Turn) -> Granted | None:
        then = lambda: asking if not self.stop.is_set() and turn.take() else None  # noqa: E731
        claim = AsyncHeldClaim(self.port, granted, then=then)
        with suppress(LeaseLost):
            async with claim:
                with recording_outcome(claim, self.stop):
                    claim.end_as("done", result=await self.handler(claim))
        return None if claim.following is None else await refresh_if_old_async(self.port, claim.following)
