"""A session for asyncio. See `Session`."""

import asyncio
from types import TracebackType
from typing import Any, Self

from octostore.client.session import Session
from octostore.client.threads import in_thread
from octostore.core.replies import KeepaliveReply


class AsyncSession:
    """See `Session`; what speaks to the store is awaited, and `lost` is an event of this loop."""

    def __init__(self, session: Session, lost: asyncio.Event) -> None:
        self._session = session
        self.lost = lost
        self.reply = session.reply
        self.session_id = session.session_id
        self.resumed = session.resumed

    @property
    def context(self) -> Any:
        return self._session.context

    def remaining(self) -> float:
        return self._session.remaining()

    async def keepalive(self) -> KeepaliveReply:
        return await in_thread(self._session.keepalive)

    async def save(self, context: Any) -> None:
        await in_thread(self._session.save, context)

    async def close(self) -> None:
        await in_thread(self._session.close)

    async def __aenter__(self) -> Self:
        self._session.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.shield(in_thread(self._session.__exit__, kind, error, traceback))
