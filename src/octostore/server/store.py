"""The store, as the event loop uses it: nothing blocks the loop, and a batch of answers wakes it once."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, TypeAlias, cast

from octostore.core.commands import AnyCommand, Command, R_co
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.questions import Question
from octostore.stores.batch import Answer
from octostore.stores.store import LocalStore
from octostore.stores.writer import MAX_BATCH

READER_THREADS = 8


_Pending: TypeAlias = tuple[Sequence[AnyCommand], "asyncio.Future[list[Answer]]"]


class ServedStore:
    def __init__(self, store: LocalStore) -> None:
        self.local = store
        self._loop = asyncio.get_running_loop()
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="octostore-reader")
        self._pending: list[_Pending] = []

    def submit(self, commands: Sequence[AnyCommand]) -> "asyncio.Future[list[Answer]]":
        """Run in one transaction, and do so whether or not anybody waits for it."""
        answers: asyncio.Future[list[Answer]] = self._loop.create_future()
        if not self._pending:
            # All that arrives in this turn of the loop goes to the writer in one piece, and comes back as one.
            self._loop.call_soon(self._flush)
        self._pending.append((commands, answers))
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

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for start in range(0, len(pending), MAX_BATCH):
            self._hand_over(pending[start : start + MAX_BATCH])

    def _hand_over(self, pending: list[_Pending]) -> None:
        commands = [command for commands, _ in pending for command in commands]
        try:
            answers = self.local.run_here(commands) if len(commands) == 1 else None
            if answers is not None:
                self._deliver(pending, answers)
                return
            self.local.submit_to(commands, partial(self._on_done, pending))
        except Unreachable as fault:
            self._deliver(pending, fault)

    def _on_done(self, pending: list[_Pending], outcome: list[Answer] | Exception) -> None:
        """In the writer's thread."""
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._deliver, pending, outcome)

    def _deliver(self, pending: list[_Pending], outcome: list[Answer] | Exception) -> None:
        if isinstance(outcome, Exception):
            self._fail(pending, outcome)
            return
        replies = iter(outcome)
        for commands, answers in pending:
            own = [next(replies) for _ in commands]
            if not answers.done():  # nobody may wait for it any more
                answers.set_result(own)

    def _fail(self, pending: list[_Pending], fault: Exception) -> None:
        if len(pending) > 1 and not isinstance(fault, Unreachable):
            for one in pending:  # a bug met by one of them is not the others' problem
                self._hand_over([one])
            return
        for _, answers in pending:
            if not answers.done():
                # Each raises, and so changes, an error of its own.
                answers.set_exception(copy(fault))
