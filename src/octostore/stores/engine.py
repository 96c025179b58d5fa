"""A backend in use by one process: its writer, its readers, and its waiters."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from octostore.core.commands import AnyCommand, R_co
from octostore.core.errors import Unreachable
from octostore.core.events import LogEntry
from octostore.core.limits import PAGE_MAX
from octostore.core.questions import ListEvents, Question
from octostore.core.sources import Sources
from octostore.stores.base import Backend
from octostore.stores.batch import Committed, run_batch
from octostore.stores.clock import Clock
from octostore.stores.reading import ask
from octostore.stores.retrying import retrying
from octostore.stores.wakeups import Wakeups, topics_of
from octostore.stores.writer import Writer

OnBatch: TypeAlias = Callable[[int, float], None]
"""Called after each transaction with the number of commands in it and its duration in seconds."""


class Engine:
    def __init__(self, backend: Backend, clock: Clock, sources: Sources, on_batch: OnBatch | None = None) -> None:
        self.backend = backend
        self._clock = clock
        self._sources = sources
        self.wakeups = Wakeups(self._read_after, backend.on_foreign_commit, lambda: backend.poll_seconds)
        self._on_batch = on_batch
        at_once = None if backend.writing_at_once is None else partial(self._run, at_once=True)
        self.writer = Writer(self._run, self._on_commit, at_once)

    def ask(self, question: Question[R_co]) -> R_co:
        return ask(self.backend, question, self._clock, self._sources.retry)

    def close(self) -> None:
        self.writer.close()
        self.wakeups.close()
        self.backend.close()

    def _run(self, commands: Sequence[AnyCommand], *, at_once: bool = False) -> Committed:
        started = time.perf_counter()
        try:
            committed = run_batch(self.backend, commands, self._clock, self._sources, at_once=at_once)
        except Unreachable as fault:
            if fault.reason != "no_store" or not any(command.founds for command in commands):
                raise
            self.backend.create()
            committed = run_batch(self.backend, commands, self._clock, self._sources)
        if self._on_batch is not None:
            self._on_batch(len(commands), time.perf_counter() - started)
        return committed

    def _on_commit(self, committed: Committed) -> None:
        self.wakeups.publish_commit(committed.entries)
        if committed.hastened:
            self.wakeups.publish(topic for job in committed.hastened for topic in topics_of(job))
        if committed.renewed:
            self.wakeups.publish(("renewal", job_id) for job_id in committed.renewed)

    def _read_after(self, seq: int | None) -> tuple[list[LogEntry], int]:
        return retrying(lambda: self._read_after_once(seq))

    def _read_after_once(self, seq: int | None) -> tuple[list[LogEntry], int]:
        with self.backend.reading() as reading:
            last_seq = reading.counters().seq
            if seq is None or last_seq <= seq:
                return [], last_seq
            return reading.list_events(ListEvents(after=seq, limit=PAGE_MAX))
