"""A worker's session for asyncio."""

import asyncio
from contextlib import suppress
from typing import Any, Self

from octostore.client.claiming import ClaimCall, claim_async
from octostore.client.methods import Awaiting
from octostore.client.port import AsyncPort, Port
from octostore.client.session import KeptSession
from octostore.client.threads import in_thread
from octostore.core.errors import OctoStoreError
from octostore.core.events import Event
from octostore.core.replies import SessionReply
from octostore.stores.clock import boottime
from octostore.stores.loop_flag import LoopFlag


async def open_session_async(port: AsyncPort, call: ClaimCall[SessionReply]) -> "AsyncSession":
    asked_at = boottime()
    return AsyncSession(port.blocking, await claim_async(port, *call), asked_at)


class AsyncSession(Awaiting, KeptSession):
    """A `Session` for asyncio: you await the calls to the store, and `lost` is an `asyncio.Event`.

    Example:
        >>> async def run():
        ...     async with await octostore.connect_async("memory:") as store:
        ...         async with await store.open_session("agent-3", session_id="main") as session:
        ...             await session.save({"turn": 4})
        ...         return (await store.get_session("main")).status
        >>> asyncio.run(run())
        'closed'
    """

    lost: asyncio.Event

    def __init__(self, port: Port, reply: SessionReply, asked_at: float, **options: Any) -> None:
        lost = LoopFlag()
        self.lost = lost.event
        super().__init__(port, reply, asked_at, lost, **options)

    async def since(self) -> list[Event]:
        """Read what has happened to the session and its jobs since `reply.context` was saved.

        Returns:
            The events, oldest first.

        Example:
            >>> async def run():
            ...     async with await octostore.connect_async("memory:") as store:
            ...         session = await store.open_session("agent-3")
            ...         return [event.type for event in await session.since()]
            >>> asyncio.run(run())
            ['session_opened']
        """
        return await in_thread(lambda: list(self._since()))

    async def __aenter__(self) -> Self:
        try:
            self._heartbeater.start()
        except BaseException:
            with suppress(OctoStoreError):
                await in_thread(self._close)
            raise
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        await asyncio.shield(in_thread(self._leave, error))
