"""`hold()` for asyncio. Heartbeats still come from a thread: a task would stop with the loop it speaks for."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncContextDecorator, suppress
from typing import Any, Self

from octostore.client.claiming import HoldCall, claim_async
from octostore.client.hold import (
    BLOCK_NOT_ENTERED,
    IF_NOT_KEPT,
    BlockBase,
    F,
    Granted,
    KeptClaim,
    granted,
    hold_text,
    refresh_command,
    releasing_if_interrupted,
    renewed,
)
from octostore.client.lateness import check_ttl_is_safe_here, must_measure, own_lateness
from octostore.client.methods import Awaiting
from octostore.client.port import AsyncPort
from octostore.client.threads import in_background, in_thread
from octostore.core.commands import Command
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.replies import ClaimReply
from octostore.stores.clock import boottime
from octostore.stores.loop_flag import LoopFlag


async def claim_to_hold_async(
    port: AsyncPort, command: Command[ClaimReply], wait: float, is_generated: bool
) -> Granted:
    asked_at = boottime()
    return await refresh_own_async(port, granted(await claim_async(port, command, wait, is_generated), asked_at))


async def refresh_own_async(port: AsyncPort, granted: Granted) -> Granted:
    with releasing_if_interrupted(port.blocking, granted.reply):
        return await refresh_if_old_async(port, granted)


async def check_ttl_is_safe_async(ttl: float) -> None:
    if must_measure(ttl):
        await in_thread(own_lateness.measure)
    check_ttl_is_safe_here(ttl)


async def refresh_if_old_async(port: AsyncPort, granted: Granted) -> Granted:
    refresh = refresh_command(granted)
    if refresh is None:
        return granted
    asked_at = boottime()
    return Granted(granted.reply, asked_at, (await port.execute(refresh)).remaining_ms)


class AsyncHeldClaim(Awaiting, KeptClaim):
    """Your claim in an `async with store.hold(...)` block. Like `HeldClaim`, but you await the calls to the store.

    `lost` and `stop_requested` are `asyncio.Event`s.

    Example:
        >>> async def run():
        ...     async with await octostore.connect_async("memory:") as store:
        ...         async with store.hold("import") as claim:
        ...             await claim.checkpoint({"page": 3})
        ...         return (await store.get_job("import")).checkpoint
        >>> asyncio.run(run())
        {'page': 3}
    """

    lost: asyncio.Event
    stop_requested: asyncio.Event

    def __init__(self, port: AsyncPort, granted: Granted, **options: Any) -> None:
        lost, stop = LoopFlag(), LoopFlag()
        self.lost, self.stop_requested = lost.event, stop.event
        self._async_port = port
        super().__init__(port.blocking, granted, lost, stop, **options)

    async def __aenter__(self) -> Self:
        try:
            self._enter()
        except BaseException:
            with suppress(OctoStoreError):
                await in_thread(self.give_up, BLOCK_NOT_ENTERED)
            raise
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        commands = self._end_commands(error)
        try:
            replies = await self._async_port.execute_all(commands)
        except asyncio.CancelledError:
            # The port undoes what was claimed together with the release. The release itself is repeated, which is safe.
            no_reply = Unreachable("the task was cancelled before the reply arrived", reason="late")
            in_background(self._finish, commands[:1], [no_reply], error)
            raise
        if any(isinstance(reply, Unreachable) for reply in replies):
            # It has to retry, and so to block.
            await asyncio.shield(asyncio.wrap_future(in_background(self._finish, commands, replies, error)))
        else:
            self._finish(commands, replies, error)


class AsyncBlock(
    BlockBase[Awaitable[AsyncHeldClaim]], AbstractAsyncContextManager[AsyncHeldClaim], AsyncContextDecorator
):
    """What `hold()` and `keep()` of an `AsyncOctoStore` return."""

    _STATEMENT = "an `async with` statement"

    def __call__(self, function: F) -> F:
        self._is_used = True
        return super().__call__(function)

    async def __aenter__(self) -> AsyncHeldClaim:
        self._use()
        self._claim = await self._open_claim()
        return await self._claim.__aenter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self._claim.__aexit__(kind, error, traceback)


def hold_block_async(port: AsyncPort, call: HoldCall) -> AsyncBlock:
    async def open_claim() -> AsyncHeldClaim:
        request, ttl, outcome, on_lost = renewed(call)
        await check_ttl_is_safe_async(ttl)
        claim = AsyncHeldClaim(port, await claim_to_hold_async(port, *request), on_lost=on_lost)
        claim.end_as(outcome)
        return claim

    return AsyncBlock(hold_text(call), open_claim)


def keep_block_async(
    port: AsyncPort, reply: ClaimReply, asked_at: float, on_lost: Callable[[], None] | None
) -> AsyncBlock:
    async def open_claim() -> AsyncHeldClaim:
        return AsyncHeldClaim(port, await refresh_if_old_async(port, granted(reply, asked_at)), on_lost=on_lost)

    return AsyncBlock("keep()", open_claim, IF_NOT_KEPT)
