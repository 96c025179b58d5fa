"""Looks up unknown tokens in batches: however many arrive, the store gets one question at a time."""

import asyncio
from copy import copy
from itertools import islice

from octostore.core.questions import FindTokens
from octostore.core.replies import TokenView
from octostore.server.store import ServedStore

AT_ONCE = 500
PAUSE_SECONDS = 0.01
"""The pause after a question that contained a wrong token. It limits what guessing costs the store, at little cost
to others: a valid token that arrives with 10,000 wrong ones is delayed by a fifth of a second.
"""


class TokenLookups:
    def __init__(self, store: ServedStore) -> None:
        self._store = store
        self._pending: dict[bytes, asyncio.Future[TokenView | Exception | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def find(self, digest: bytes) -> TokenView | None:
        """Return the token whose secret has this SHA-256, read after this call; None if there is none."""
        wanted = self._pending.get(digest)
        if wanted is None:
            wanted = self._pending[digest] = asyncio.get_running_loop().create_future()
            self._task = self._task or asyncio.create_task(self._run())
        found = await asyncio.shield(wanted)  # others may wait for the same token
        if isinstance(found, Exception):
            raise copy(found)
        return found

    async def _run(self) -> None:
        while self._pending:
            digests = tuple(islice(self._pending, AT_ONCE))
            wanted = [self._pending.pop(digest) for digest in digests]
            found = await self._ask(digests)
            for future, one in zip(wanted, found, strict=True):
                future.set_result(one)
            if None in found:
                await asyncio.sleep(PAUSE_SECONDS)
        self._task = None

    async def _ask(self, digests: tuple[bytes, ...]) -> "list[TokenView | None] | list[Exception]":
        try:
            return (await self._store.ask(FindTokens(digests=digests))).tokens
        except Exception as fault:  # noqa: BLE001  # whatever it is, the waiting callers must get it
            return [fault] * len(digests)
