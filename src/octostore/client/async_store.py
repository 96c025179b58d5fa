"""`AsyncOctoStore`: the library's interface for asyncio."""

import asyncio
from typing import Self

from octostore.client.async_hold import AsyncHeldClaim
from octostore.client.calls import Calls
from octostore.client.methods import Awaiting
from octostore.client.port import AsyncPort
from octostore.client.reader import Questions


class AsyncOctoStore(Awaiting, Calls[AsyncHeldClaim, asyncio.Event], Questions):
    """`OctoStore` for asyncio: the same calls, awaited.

    Get an `AsyncOctoStore` from `octostore.connect_async()`. Use `hold` and `keep` with `async with`, and `events` and
    `job_pages` with `async for`. For examples of the methods, see `OctoStore` and add `await`.

    Example:
        >>> async def report():
        ...     async with await octostore.connect_async("memory:") as store:
        ...         async with store.hold("nightly-report") as claim:
        ...             await claim.progress("reading", percent=10)
        ...         return (await store.get_job("nightly-report")).status
        >>> asyncio.run(report())
        'free'
    """

    def __init__(self, port: AsyncPort) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()
