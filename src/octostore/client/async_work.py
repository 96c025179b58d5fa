"""Worker loops for asyncio. See `work.py`."""

import asyncio
import signal
from contextlib import suppress
from inspect import isawaitable
from typing import Any

import msgspec

from octostore.client.async_hold import (
    AsyncHeldClaim,
    check_ttl_is_safe_async,
    claim_to_hold_async,
    refresh_own_async,
)
from octostore.client.claiming import with_new_request_id
from octostore.client.hold import Granted
from octostore.client.port import AsyncPort
from octostore.client.queue_calls import WorkCall
from octostore.client.signals import catching_signals, exit_on
from octostore.client.work import (
    DRAINING,
    UNREACHABLE_PAUSE_SECONDS,
    WAIT_SECONDS,
    WORKER_STOPPED,
    AnyClaim,
    Failed,
    Outage,
    check_work,
    log,
    overrun,
    recording_outcome,
)
from octostore.client.work_limits import Turn
from octostore.core.errors import LeaseLost, OctoStoreError, Unreachable
from octostore.core.undo import release_claim
from octostore.stores.pausing import jittered


async def work_async(port: AsyncPort, call: WorkCall) -> int:
    check_work(call)
    await check_ttl_is_safe_async(call.ttl)
    return await AsyncWorkLoop(port, call, call.stop or asyncio.Event()).run(call.concurrency)


class AsyncWorkLoop(msgspec.Struct):
    """See `WorkLoop`."""

    port: AsyncPort
    call: WorkCall
    stop: asyncio.Event
    stopped_by: signal.Signals | None = None
    outage: Outage = msgspec.field(default_factory=Outage)

    async def run(self, concurrency: int) -> int:
        workers: list[asyncio.Task[int]] = []
        budget = self.call.limits.budget()
        loop = asyncio.get_running_loop()
        with catching_signals(lambda number: loop.call_soon_threadsafe(self._on_signal, workers, number)):
            async with asyncio.TaskGroup() as group:
                workers += [group.create_task(self._run_one_worker(Turn(budget))) for _ in range(concurrency)]
        if self.stopped_by is not None:
            exit_on(self.stopped_by)
        return sum(worker.result() for worker in workers)

    def _on_signal(self, workers: "list[asyncio.Task[int]]", number: signal.Signals) -> None:
        """The second signal cancels the handlers, which releases their jobs."""
        if self.stop.is_set():
            self.stopped_by = number
            for worker in workers:
                worker.cancel(number.name)
        else:
            self.stop.set()
            log.warning(DRAINING, number.name)

    async def _run_one_worker(self, turn: Turn) -> int:
        handled = 0
        request = with_new_request_id(self.call.claim)
        claimed: Granted | None = None
        while not self.stop.is_set() and turn.take():
            try:
                if claimed is None:
                    outcome = await self._ask(request)
                    if outcome.reply.status == "claimed":
                        claimed = outcome
                    elif self.call.limits.is_reached(outcome.reply):
                        break
                else:
                    request = with_new_request_id(self.call.claim)
                    current, claimed = claimed, None
                    turn.use()
                    claimed = await self._handle(current, request, turn)
                    handled += 1
            except LeaseLost:
                request = with_new_request_id(self.call.claim)  # a reply was lost until its claim had ended
            except Unreachable as fault:
                if self.call.limits.until_empty or fault.reason == "closed":
                    raise
                self.outage.note(fault)
                await asyncio.sleep(jittered(UNREACHABLE_PAUSE_SECONDS))
            else:
                self.outage.end()
        if claimed is not None:
            with suppress(OctoStoreError):
                await self.port.execute(release_claim(claimed.reply, WORKER_STOPPED))
        return handled

    async def _ask(self, request: AnyClaim) -> Granted:
        return await claim_to_hold_async(self.port, request, 0 if self.call.limits.until_empty else WAIT_SECONDS, False)

    async def _handle(self, current: Granted, request: AnyClaim, turn: Turn) -> Granted | None:
        def claim_next() -> AnyClaim | None:
            return request if not self.stop.is_set() and turn.take() else None

        claim = AsyncHeldClaim(self.port, current, claim_next=claim_next)
        with suppress(LeaseLost):
            async with claim:
                with recording_outcome(claim, self.stop):
                    claim.end_as("done", result=await self._call_handler(claim))
        return None if claim.following is None else await refresh_own_async(self.port, claim.following)

    async def _call_handler(self, claim: AsyncHeldClaim) -> Any:
        try:
            async with asyncio.timeout(self.call.max_run) as limit:
                result = self.call.handler_for(claim.kind)(claim)
                return await result if isawaitable(result) else result
        except TimeoutError as error:
            if limit.expired():
                raise Failed(overrun(self.call.max_run or 0)) from error
            raise
