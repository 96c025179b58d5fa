"""`hold()` for asyncio. Heartbeats still come from a thread: a task would stop with the loop it is to speak for."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from octostore.client.hold import Granted, HeldClaim, granted, refresher
from octostore.client.port import AsyncPort
from octostore.client.threads import in_thread
from octostore.core.commands import Command
from octostore.core.model import Outcome
from octostore.core.replies import AttemptView, ClaimReply
from octostore.stores.clock import boottime


async def ask_for_async(port: AsyncPort, command: Command[ClaimReply], wait: float) -> Granted:
    """Claim, in order to hold."""
    asked_at = boottime()
    answer = granted(await port.execute(command, wait), asked_at)
    refresh = refresher(answer)
    if refresh is None:
        return answer
    asked_at = boottime()
    return Granted(answer.reply, asked_at, (await port.execute(refresh)).remaining_ms)


class AsyncHeldClaim:
    """See `HeldClaim`; what speaks to the store is awaited, and `lost` is an event of this loop."""

    def __init__(self, claim: HeldClaim, lost: asyncio.Event) -> None:
        self._claim = claim
        self.lost = lost
        self.reply = claim.reply
        self.job_id = claim.job_id

    @property
    def lease_id(self) -> str:
        return self._claim.lease_id

    @property
    def fencing_token(self) -> int:
        return self._claim.fencing_token

    @property
    def ttl(self) -> float:
        return self._claim.ttl

    @property
    def attempt(self) -> int:
        return self._claim.attempt

    @property
    def payload(self) -> Any:
        return self._claim.payload

    @property
    def last_checkpoint(self) -> Any:
        return self._claim.last_checkpoint

    @property
    def previous(self) -> list[AttemptView]:
        return self._claim.previous

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

    def let_expire(self) -> None:
        self._claim.let_expire()

    def watch(self, on_renewed: Callable[[float], None], on_lost: Callable[[], None]) -> float:
        return self._claim.watch(on_renewed, on_lost)

    async def progress(self, note: str | None = None, *, percent: float | None = None) -> None:
        await in_thread(self._claim.progress, note, percent=percent)

    async def checkpoint(self, data: Any) -> None:
        await in_thread(self._claim.checkpoint, data)

    async def __aenter__(self) -> Self:
        self._claim.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Shielded: a task that is cancelled while it gives the job back still gives it back.
        await asyncio.shield(in_thread(self._claim.__exit__, kind, error, traceback))
