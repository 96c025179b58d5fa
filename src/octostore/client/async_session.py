"""A session for asyncio. See `Session`."""

import asyncio
from typing import Any, Self

from octostore.client.session import Session
from octostore.client.threads import in_thread
from octostore.core.events import Event
from octostore.core.model import Phase
from octostore.core.replies import HandedOverReply, KeepaliveReply, StopView


class AsyncSession:
    """See `Session`; what speaks to the store is awaited, and `lost` is an event of this loop."""

    def __init__(self, session: Session, lost: asyncio.Event) -> None:
        self._session = session
        self.lost = lost
        self.reply = session.reply
        self.session_id = session.session_id
        self.resumed = session.resumed
        self.note = session.note
        self.in_flight = session.in_flight

    @property
    def context(self) -> Any:
        return self._session.context

    @property
    def phase(self) -> Phase:
        return self._session.phase

    @property
    def stop_requested(self) -> dict[str, StopView]:
        return self._session.stop_requested

    def remaining(self) -> float:
        return self._session.remaining()

    async def keepalive(self) -> KeepaliveReply:
        return await in_thread(self._session.keepalive)

    async def save(self, context: Any, *, phase: Phase | None = None) -> None:
        await in_thread(self._session.save, context, phase=phase)

    async def since(self) -> list[Event]:
        return await in_thread(lambda: list(self._session.since()))

    async def hand_over(self, to_agent: str, note: str | None = None) -> HandedOverReply:
        return await in_thread(self._session.hand_over, to_agent, note)

    async def close(self) -> None:
        await in_thread(self._session.close)

    async def __aenter__(self) -> Self:
        self._session.__enter__()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await asyncio.shield(in_thread(self._session.__exit__, kind, error, traceback))
