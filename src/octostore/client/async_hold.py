"""`hold()` for asyncio. Heartbeats still come from a thread: a task would stop with the loop it is to speak for."""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from octostore.client.claiming import claim_async
from octostore.client.hold import Granted, HeldClaim, OwnClaim, granted, refresher
from octostore.client.port import AsyncPort
from octostore.client.threads import in_background, in_thread
from octostore.core.commands import Command
from octostore.core.errors import Unreachable
from octostore.core.model import Outcome
from octostore.core.replies import ClaimReply, HandedOverReply
from octostore.stores.clock import boottime
from octostore.stores.loop_flag import LoopFlag


async def ask_for_async(port: AsyncPort, command: Command[ClaimReply], wait: float, is_generated: bool) -> Granted:
    """Claim, in order to hold."""
    asked_at = boottime()
    return await refreshed_async(port, granted(await claim_async(port, command, wait, is_generated), asked_at))


async def refreshed_async(port: AsyncPort, answer: Granted) -> Granted:
    refresh = refresher(answer)
    if refresh is None:
        return answer
    asked_at = boottime()
    return Granted(answer.reply, asked_at, (await port.execute(refresh)).remaining_ms)


class AsyncHeldClaim(OwnClaim):
    """See `HeldClaim`; what speaks to the store is awaited, and `lost` is an event of this loop."""

    def __init__(
        self,
        port: AsyncPort,
        granted: Granted,
        *,
        on_lost: Callable[[], None] | None = None,
        then: Callable[[], Command[ClaimReply] | None] = lambda: None,
    ) -> None:
        super().__init__(granted.reply)
        lost = LoopFlag()
        self._port = port
        self._claim = HeldClaim(port.blocking, granted, lost=lost, on_lost=on_lost, then=then)
        self.lost = lost.event

    def remaining(self) -> float:
        return self._claim.remaining()

    def check(self) -> None:
        self._claim.check()

    def end_as(
        self,
        outcome: Outcome,
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self._claim.end_as(outcome, result=result, error=error, note=note, retry_after=retry_after)

    async def hand_over(self, to_agent: str, note: str | None = None) -> HandedOverReply:
        return await in_thread(self._claim.hand_over, to_agent, note)

    def let_expire(self) -> None:
        self._claim.let_expire()

    @property
    def following(self) -> Granted | None:
        return self._claim.following

    def watch(self, on_renewed: Callable[[float], None], on_lost: Callable[[], None]) -> float:
        return self._claim.watch(on_renewed, on_lost)

    async def progress(self, note: str | None = None, *, percent: float | None = None) -> None:
        await in_thread(self._claim.progress, note, percent=percent)

    async def checkpoint(self, data: Any) -> None:
        await in_thread(self._claim.checkpoint, data)

    async def __aenter__(self) -> Self:
        self._claim.__enter__()
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        leaving, left = self._claim._leaving, self._claim._left  # noqa: SLF001  # this is its other half
        commands = leaving(error)
        try:
            answers = await self._port.execute_all(commands)
        except asyncio.CancelledError:
            # What was claimed together with it is given back by the port. But a task that is cancelled while it gives
            # the job back still gives it back: whether that was done or not, it can be done again.
            in_background(left, commands[:1], [Unreachable("nobody waited for the answer", reason="late")], error)
            raise
        if any(isinstance(answer, Unreachable) for answer in answers):
            # It has to try again, and to wait.
            await asyncio.shield(asyncio.wrap_future(in_background(left, commands, answers, error)))
        else:
            left(commands, answers, error)
