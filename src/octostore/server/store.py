"""The store, as the event loop uses it: nothing blocks the loop, and a batch of answers wakes it once."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, cast

from octostore.core.commands import AnyCommand, Command, R_co
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.questions import Question
from octostore.stores.batch import Answer
from octostore.stores.store import LocalStore

READER_THREADS = 8


class ServedStore:
    def __init__(self, store: LocalStore) -> None:
        self.local = store
        self._loop = asyncio.get_running_loop()
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="octostore-reader")
        self._ready: deque[tuple[asyncio.Future[list[Answer]], list[Answer] | Exception]] = deque()
        self._is_delivering = False

    def submit(self, commands: Sequence[AnyCommand]) -> "asyncio.Future[list[Answer]]":
        """Run in one transaction, and do so whether or not anybody waits for it."""
        answers: asyncio.Future[list[Answer]] = self._loop.create_future()
        try:
            self.local.submit_to(commands, partial(self._on_done, answers))
        except Unreachable as fault:
            answers.set_exception(fault)
        return answers

    async def execute(self, command: Command[R_co]) -> R_co:
        (answer,) = await self.submit([cast("AnyCommand", command)])
        if isinstance(answer, OctoStoreError):
            raise answer
        reply: R_co = answer
        return reply

    async def ask(self, question: Question[R_co]) -> R_co:
        reply: R_co = await self.in_thread(partial(self.local.ask, question))
        return reply

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        return await self._loop.run_in_executor(self._readers, call)

    async def close(self) -> None:
        """Finish what was submitted."""
        await self.in_thread(self.local.close)
        self._readers.shutdown(wait=False)

    def _on_done(self, answers: "asyncio.Future[list[Answer]]", outcome: list[Answer] | Exception) -> None:
        """In the writer's thread. Waking the loop costs more than all the rest, so it is done once for many."""
        self._ready.append((answers, outcome))
        if not self._is_delivering:
            self._is_delivering = True
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_delivering = False
        while self._ready:
            answers, outcome = self._ready.popleft()
            if answers.done():  # nobody waits for it any more
                continue
            if isinstance(outcome, Exception):
                answers.set_exception(outcome)
            else:
                answers.set_result(outcome)
