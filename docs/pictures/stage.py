"""A real store in memory, with controlled time and randomness: the pictures show what it did, and are reproducible."""

import random
from datetime import UTC, datetime
from itertools import count
from types import TracebackType
from typing import Self

from octostore.client.embedded import EmbeddedPort
from octostore.client.store import OctoStore
from octostore.core.events import Event
from octostore.core.sources import Sources
from octostore.orchestrator import Orchestrator, TaskClaim
from octostore.stores.clock import Mark
from octostore.stores.memory import MemoryBackend, MemoryRows
from octostore.stores.store import LocalStore

START_MS = 1_800_000_000_000


class Stage:
    """`now` is in seconds since the start."""

    def __init__(self) -> None:
        self.now = 0.0
        rows, numbers, chance = MemoryRows(), count(1), random.Random(7)  # noqa: S311  # the same each time
        sources = Sources(lambda: f"lease-{next(numbers)}", chance.random)
        self.store = OctoStore(
            EmbeddedPort(LocalStore(lambda: MemoryBackend(rows), clock=self._clock, sources=sources))
        )
        self.orchestrator = Orchestrator(self.store)

    def claim(self, session_id: str, agent: str, ttl: float = 120) -> tuple[TaskClaim, str, str]:
        """The claim, its task and its lock token. Fails if there is no task."""
        claim = self.orchestrator.claim_task(session_id, agent, ttl=ttl)
        if claim.task_id is None or claim.lock_token is None:
            raise AssertionError(f"{agent} got no task at {self.now} s: {claim.status}")
        return claim, claim.task_id, claim.lock_token

    def events(self) -> list[Event]:
        return list(self.store.events())

    def seconds(self, moment: datetime) -> float:
        return round(moment.timestamp() - START_MS / 1_000, 3)

    def moment(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(START_MS / 1_000 + seconds, UTC)

    def _clock(self, last: Mark) -> Mark:
        return Mark(max(START_MS + round(self.now * 1_000), last.now), "stage", 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.store.close()
