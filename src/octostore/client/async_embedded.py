"""A port to a store that this process opens itself, for asyncio."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec

from octostore.client.embedded import EmbeddedPort, pause_of, reply_or_raise, topics_of_log
from octostore.client.threads import in_thread
from octostore.core.commands import Batch, Command, R_co
from octostore.core.errors import Unreachable
from octostore.core.events import Event
from octostore.core.questions import ListEvents, Question
from octostore.core.undo import undo_of
from octostore.stores.loop_flag import LoopFlag
from octostore.stores.loop_store import LoopStore
from octostore.stores.store import LocalStore
from octostore.stores.wakeups import topics_of_claim


class AsyncEmbeddedPort:
    """Waits without a thread, and reads in one because SQLite blocks."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.blocking = EmbeddedPort(store)
        self._loop_store = LoopStore(store)

    async def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        reply = await self._execute_one(command)
        if not wait or pause_of(command, reply) is None:
            return reply
        deadline = time.monotonic() + wait
        bell = LoopFlag()
        with self.store.listening(topics_of_claim(command, reply), bell.set):
            while True:
                bell.event.clear()
                reply = await self._execute_one(command)
                pause = pause_of(command, reply)
                left = deadline - time.monotonic()
                if pause is None or left <= 0:
                    return reply
                with suppress(TimeoutError):
                    await asyncio.wait_for(bell.event.wait(), min(pause, left))

    async def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        steps = Batch(commands, atomic).steps
        if len(steps) == 1:
            return await self._execute_together(commands)
        # In one turn of the loop, so that the writer can put several into one transaction.
        tasks = [asyncio.create_task(self._execute_together(some)) for some in steps]
        try:
            return list(chain.from_iterable(await asyncio.gather(*tasks)))
        except asyncio.CancelledError:
            for task in tasks:
                if not task.cancelled():  # otherwise it has undone its own
                    self.undo_claims(task.result())
            raise

    def undo_claims(self, replies: Sequence[Any]) -> None:
        with suppress(Unreachable):  # it is closed
            for undo in map(undo_of, replies):
                if undo is not None:
                    self.blocking.submit(undo)

    async def _execute_together(self, commands: Sequence[Command[Any]]) -> list[Any]:
        try:
            return await self._loop_store.execute_all(commands)
        except Unreachable as fault:
            return [fault] * len(commands)

    async def ask(self, question: Question[R_co]) -> R_co:
        return await in_thread(self.store.ask, question)

    async def follow(self, question: ListEvents) -> AsyncIterator[Event]:
        bell = LoopFlag()
        with self.store.listening(topics_of_log(question), bell.set):
            while True:
                bell.event.clear()
                page = await self.ask(question)
                for event in page.events:
                    yield event
                if page.after == question.after:
                    await bell.event.wait()
                question = msgspec.structs.replace(question, after=page.after)

    async def close(self) -> None:
        await in_thread(self.store.close)

    async def _execute_one(self, command: Command[R_co]) -> R_co:
        (outcome,) = await self._loop_store.execute_all([command])
        reply: R_co = reply_or_raise(outcome)
        return reply
