"""The store, for as long as the agent's session lasts."""

import asyncio

from octostore.client.async_connect import connect_async
from octostore.client.async_store import AsyncOctoStore


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
