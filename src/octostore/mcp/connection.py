"""A process's store and claims, for as long as its agent's session lasts."""

import asyncio
from typing import NamedTuple

from octostore.client.async_connect import connect_async, require_client
from octostore.client.async_store import AsyncOctoStore
from octostore.core.errors import InvalidInput
from octostore.mcp.claims import Claims
from octostore.mcp.own import NotSetUp
from octostore.mcp.sessions import Sessions
from octostore.mcp.silence import Silence
from octostore.stores.opening import chosen_url


class Connection:
    """Opened when first needed and possible: an agent cannot restart its server."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._store: AsyncOctoStore | None = None
        self._opening = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self._store is not None

    async def store(self) -> AsyncOctoStore:
        async with self._opening:
            if self._store is None:
                try:
                    require_client(chosen_url(self._url), "mcp")
                    self._store = await connect_async(self._url)
                except InvalidInput as invalid:  # for an agent, that would be an argument of its call
                    raise NotSetUp(str(invalid)) from invalid
            return self._store

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()


class Agent(NamedTuple):
    """The agent this process serves, or several that share it."""

    connection: Connection
    claims: Claims
    sessions: Sessions
    owner: str | None

    async def store(self) -> AsyncOctoStore:
        return await self.connection.store()

    def notices(self) -> list[str]:
        """Any result carries them: an agent deep in its work may not call about a job for a long time."""
        return [*self.sessions.notices(), *self.claims.notices()]

    async def release_silent(self, silence: Silence) -> None:
        """The agent has made no call for this long: release its jobs and sessions for others."""
        await self.claims.release_silent(silence)
        await self.sessions.release_silent(silence)

    async def undo(self, call: "asyncio.Task[None]") -> None:
        """Undo what a cancelled call has claimed and opened so far."""
        await asyncio.wait([call])
        await self.claims.undo(call)
        await self.sessions.undo(call)

    async def close(self) -> None:
        """Release what the agent still has, quickly: there is little time. Bound claims end with their session."""
        open_here = {kept.session_id for kept in self.sessions.current}
        await asyncio.gather(self.claims.close(but_not_bound_to=open_here), self.sessions.close())
        await self.connection.close()
