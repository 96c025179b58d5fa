"""The core on the simplest store, with controlled time and randomness."""

import random
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from octostore.core.commands import AnyCommand, Command, R_co
from octostore.core.errors import OctoStoreError
from octostore.core.events import Event, LogEntry, public_event
from octostore.core.questions import ListEvents, Question
from octostore.core.retry import RetryPolicy
from octostore.core.sources import Sources
from octostore.stores.base import Backend
from octostore.stores.batch import run_batch
from octostore.stores.clock import Mark, as_stored
from octostore.stores.memory import MemoryBackend
from octostore.stores.reading import ask

START_MS = 1_800_000_000_000


class ManualClock:
    """Time stands still until the test moves it, forward or back."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self, last: Mark) -> Mark:
        return Mark(max(self.now_ms, last.now), "manual", 0)

    def advance(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1_000)


class DatabaseClock(ManualClock):
    """For a store with its own clock: a time at which nothing was written is not kept."""

    def __call__(self, last: Mark) -> Mark:
        return as_stored(last)


def repeatable_sources(seed: int = 0, retry: RetryPolicy | None = None) -> Sources:
    """With the same seed, leases and jitter are the same."""
    numbers = count(1)
    chance = random.Random(seed)
    return Sources(lambda: f"lease-{next(numbers)}", chance.random, retry or RetryPolicy())


class World:
    def __init__(
        self,
        backend: Backend | None = None,
        clock: ManualClock | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.backend = backend or MemoryBackend()
        self.backend.create()
        self.clock = clock or ManualClock()
        self.sources = repeatable_sources(retry=retry)

    def do(self, command: Command[R_co]) -> R_co:
        """Run one command in its own transaction."""
        (outcome,) = self.batch([command])
        if isinstance(outcome, OctoStoreError):
            raise outcome
        reply: R_co = outcome
        return reply

    def batch(self, commands: Sequence[AnyCommand]) -> list[Any]:
        return run_batch(self.backend, commands, self.clock, self.sources).replies

    def ask(self, question: Question[R_co]) -> R_co:
        return ask(self.backend, question, self.clock, self.sources.retry)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def log(self, after: int = 0) -> list[LogEntry]:
        return list(self._log(after))

    def events(self, after: int = 0) -> list[Event]:
        return [public_event(entry) for entry in self.log(after)]

    def event_types(self, after: int = 0) -> list[str]:
        return [entry.type for entry in self.log(after)]

    def _log(self, after: int) -> Iterator[LogEntry]:
        with self.backend.reading() as reading:
            last_seq = reading.counters().seq
            while after < last_seq:
                entries, after = reading.list_events(ListEvents(after=after, limit=1_000))
                yield from entries
