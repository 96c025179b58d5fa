"""The store as the server uses it: commands go through the event loop, questions run in reader threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from octostore.core.commands import Command, R_co
from octostore.core.errors import OctoStoreError
from octostore.core.limits import BATCH_STEP
from octostore.core.questions import Question
from octostore.stores.loop_store import LoopStore
from octostore.stores.store import LocalStore

READER_THREADS = 8

T = TypeVar("T")


class ServedStore(LoopStore):
    RUN_HERE_MAX = BATCH_STEP

    def __init__(self, store: LocalStore) -> None:
        super().__init__(store)
        self._loop = asyncio.get_running_loop()
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="octostore-reader")
        # Readers of the log that are far behind must not take all reader threads.
        self._feeder = ThreadPoolExecutor(1, thread_name_prefix="octostore-feed")

    async def execute(self, command: Command[R_co]) -> R_co:
        (outcome,) = await self.submit([command])
        if isinstance(outcome, OctoStoreError):
            raise outcome
        reply: R_co = outcome
        return reply

    async def ask(self, question: Question[R_co]) -> R_co:
        reply: R_co = await self.in_thread(partial(self.local.ask, question))
        return reply

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        return await self._loop.run_in_executor(self._readers, call)

    async def in_feed_thread(self, call: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._feeder, call)

    async def close(self) -> None:
        """Finish the submitted commands, then close."""
        await self.in_thread(self.local.close)
        self._readers.shutdown(wait=False)
        self._feeder.shutdown(wait=False)
