"""Tokens that are not known yet, looked up together: however many come, the store is asked one question at a time."""

import asyncio
from copy import copy
from itertools import islice

from octostore.core.questions import FindTokens
from octostore.core.replies import TokenView
from octostore.server.store import ServedStore

AT_ONCE = 500
PAUSE_SECONDS = 0.01
"""After a question in which one token was wrong. Those who guess cost little then, and nobody is kept waiting for long:
a good token that comes with 10,000 wrong ones is found a fifth of a second later.
"""


class TokenLookups:
    def __init__(self, store: ServedStore) -> None:
        self._store = store
        self._wanted: dict[bytes, asyncio.Future[TokenView | Exception | None]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def find(self, digest: bytes) -> TokenView | None:
        """The token whose secret has this SHA-256, as the store knows it after this call; None if there is none."""
        wanted = self._wanted.get(digest)
        if wanted is None:
            wanted = self._wanted[digest] = asyncio.get_running_loop().create_future()
            self._looking = self._looking or asyncio.create_task(self._look())
        found = await asyncio.shield(wanted)  # others may wait for the same
        if isinstance(found, Exception):
            raise copy(found)
        return found

    async def _look(self) -> None:
        while self._wanted:
            digests = tuple(islice(self._wanted, AT_ONCE))
            wanted = [self._wanted.pop(digest) for digest in digests]
            found = await self._ask(digests)
            for future, one in zip(wanted, found, strict=True):
                future.set_result(one)
            if None in found:
                await asyncio.sleep(PAUSE_SECONDS)
        self._looking = None

    async def _ask(self, digests: tuple[bytes, ...]) -> "list[TokenView | None] | list[Exception]":
        try:
            return (await self._store.ask(FindTokens(digests=digests))).tokens
        except Exception as fault:  # noqa: BLE001  # whatever it is, nobody is left waiting
            return [fault] * len(digests)
