"""The store, as the server uses it: commands by the loop, and what reads in threads of its own."""

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
        # Those who follow the log and are far behind must not keep all others waiting for a thread.
        self._feeder = ThreadPoolExecutor(1, thread_name_prefix="octostore-feed")

    async def execute(self, command: Command[R_co]) -> R_co:
        (answer,) = await self.submit([command])
        if isinstance(answer, OctoStoreError):
            raise answer
        reply: R_co = answer
        return reply

    async def ask(self, question: Question[R_co]) -> R_co:
        reply: R_co = await self.in_thread(partial(self.local.ask, question))
        return reply

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        return await self._loop.run_in_executor(self._readers, call)

    async def in_feed_thread(self, call: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._feeder, call)

    async def close(self) -> None:
        """Finish what was submitted."""
        await self.in_thread(self.local.close)
        self._readers.shutdown(wait=False)
        self._feeder.shutdown(wait=False)
