"""The store and the claims of a process, for as long as its agent's session lasts."""

import asyncio
from typing import NamedTuple

from octostore.client.async_connect import connect_async
from octostore.client.async_store import AsyncOctoStore
from octostore.mcp.claims import Claims


class Connection:
    """Opened when it is needed and can be reached: an agent has no way to start its server again."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._store: AsyncOctoStore | None = None
        self._opening = asyncio.Lock()

    async def store(self) -> AsyncOctoStore:
        async with self._opening:
            if self._store is None:
                self._store = await connect_async(self._url)
            return self._store

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()


class Agent(NamedTuple):
    """The one that this process serves, or several that share it."""

    connection: Connection
    claims: Claims
    owner: str | None

    async def store(self) -> AsyncOctoStore:
        return await self.connection.store()
