"""`hold()` for asyncio. Heartbeats still come from a thread: a task would stop with the loop it is to speak for."""

import asyncio
from typing import Any, Self

from octostore.client.claiming import claim_async
from octostore.client.hold import Granted, KeptClaim, granted, refresh_command
from octostore.client.lateness import check_ttl_is_safe_here, must_measure, own_lateness
from octostore.client.port import AsyncPort
from octostore.client.threads import in_background, in_thread
from octostore.core.commands import Command
from octostore.core.errors import Unreachable
from octostore.core.replies import ClaimReply, HandedOverReply
from octostore.stores.clock import boottime
from octostore.stores.loop_flag import LoopFlag


async def claim_to_hold_async(
    port: AsyncPort, command: Command[ClaimReply], wait: float, is_generated: bool
) -> Granted:
    """Claim, in order to hold."""
    asked_at = boottime()
    return await refresh_if_old_async(port, granted(await claim_async(port, command, wait, is_generated), asked_at))


async def check_ttl_is_safe_async(ttl: float) -> None:
    if must_measure(ttl):
        await in_thread(own_lateness.measure)
    check_ttl_is_safe_here(ttl)


async def refresh_if_old_async(port: AsyncPort, answer: Granted) -> Granted:
    refresh = refresh_command(answer)
    if refresh is None:
        return answer
    asked_at = boottime()
    return Granted(answer.reply, asked_at, (await port.execute(refresh)).remaining_ms)


class AsyncHeldClaim(KeptClaim):
    """See `HeldClaim`; what speaks to the store is awaited, and its events are those of this loop."""

    def __init__(self, port: AsyncPort, granted: Granted, **options: Any) -> None:
        lost, stop = LoopFlag(), LoopFlag()
        self.lost, self.stop_requested = lost.event, stop.event
        self._own_port = port
        super().__init__(port.blocking, granted, lost, stop, **options)

    async def progress(self, note: str | None = None, *, percent: float | None = None) -> None:
        await in_thread(self._progress, note, percent)

    async def checkpoint(self, data: Any) -> None:
        await in_thread(self._checkpoint, data)

    async def hand_over(self, to_agent: str, note: str | None = None) -> HandedOverReply:
        return await in_thread(self._hand_over, to_agent, note)

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        commands = self._leaving(error)
        try:
            answers = await self._own_port.execute_all(commands)
        except asyncio.CancelledError:
            # What was claimed together with it is given back by the port. But a task that is cancelled while it gives
            # the job back still gives it back: whether that was done or not, it can be done again.
            in_background(self._left, commands[:1], [Unreachable("nobody waited for the answer", reason="late")], error)
            raise
        if any(isinstance(answer, Unreachable) for answer in answers):
            # It has to try again, and to wait.
            await asyncio.shield(asyncio.wrap_future(in_background(self._left, commands, answers, error)))
        else:
            self._left(commands, answers, error)
