"""Worker loops for asyncio. See `work.py`."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from octostore.client.async_hold import AsyncHeldClaim, ask_for_async, refreshed_async
from octostore.client.claiming import with_fresh_id
from octostore.client.enough import Enough, Turn
from octostore.client.hold import Granted
from octostore.client.port import AsyncPort
from octostore.client.signals import die_of, noting
from octostore.client.work import (
    DRAINING,
    TOLD_TO_STOP,
    UNREACHABLE_PAUSE_SECONDS,
    WAIT_SECONDS,
    AnyClaim,
    log,
    noted,
)
from octostore.core.errors import LeaseLost, OctoStoreError, Unreachable
from octostore.core.undo import give_back
from octostore.stores.pausing import jittered

AsyncHandler = Callable[[AsyncHeldClaim], Awaitable[Any]]


class AsyncWorkLoop(msgspec.Struct):
    """See `WorkLoop`."""

    port: AsyncPort
    claim: AnyClaim
    handler: AsyncHandler
    stop: asyncio.Event
    enough: Enough
    stopped_by: signal.Signals | None = None

    async def run(self, concurrency: int) -> int:
        workers: list[asyncio.Task[int]] = []
        jobs = self.enough.jobs()
        loop = asyncio.get_running_loop()
        with noting(lambda number: loop.call_soon_threadsafe(self._heed, workers, number)):
            async with asyncio.TaskGroup() as group:
                workers += [group.create_task(self._run_one_worker(Turn(jobs))) for _ in range(concurrency)]
        if self.stopped_by is not None:
            die_of(self.stopped_by)
        return sum(worker.result() for worker in workers)

    def _heed(self, workers: "list[asyncio.Task[int]]", number: signal.Signals) -> None:
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
        asking = with_fresh_id(self.claim)
        claimed: Granted | None = None
        while not self.stop.is_set() and turn.take():
            try:
                if claimed is None:
                    answer = await self._ask(asking)
                    if answer.reply.status == "claimed":
                        claimed = answer
                    elif self.enough.is_reached(answer.reply):
                        break
                else:
                    asking = with_fresh_id(self.claim)
                    at_hand, claimed = claimed, None
                    turn.use()
                    claimed = await self._handle(at_hand, asking, turn)
                    handled += 1
            except LeaseLost:
                asking = with_fresh_id(self.claim)  # an answer was lost for so long that what it gave has ended
            except Unreachable as fault:
                if self.enough.until_empty or fault.reason == "closed":
                    raise
                await asyncio.sleep(jittered(UNREACHABLE_PAUSE_SECONDS))
        if claimed is not None:
            with suppress(OctoStoreError):
                await self.port.execute(give_back(claimed.reply, TOLD_TO_STOP))
        return handled

    async def _ask(self, asking: AnyClaim) -> Granted:
        return await ask_for_async(self.port, asking, 0 if self.enough.until_empty else WAIT_SECONDS, False)

    async def _handle(self, granted: Granted, asking: AnyClaim, turn: Turn) -> Granted | None:
        then = lambda: asking if not self.stop.is_set() and turn.take() else None  # noqa: E731
        claim = AsyncHeldClaim(self.port, granted, then=then)
        with suppress(LeaseLost):
            async with claim:
                with noted(claim, self.stop):
                    claim.end_as("done", result=await self.handler(claim))
        return None if claim.following is None else await refreshed_async(self.port, claim.following)
