"""The last 15 minutes of a busy store on a real server, with a bit of everything, to show on the live page.

This takes an instant: the store's clock is controlled until the scene has been played, and then runs as usual.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from octostore.client.embedded import EmbeddedPort
from octostore.client.store import OctoStore
from octostore.core.model import Outcome
from octostore.stores.clock import Mark
from octostore.stores.memory import MemoryBackend, MemoryRows
from octostore.stores.store import LocalStore
from tests.support.served import ServedStore

SECONDS = 860
TTL = 120
BEAT_SECONDS = 40


class Shift(NamedTuple):
    """One owner at work, with occasional heartbeats. Without an outcome, they stop at `end`."""

    job_id: str
    owner: str
    start: int
    end: int
    notes: tuple[str, ...] = ()
    outcome: Outcome | None = None
    error: str | None = None

    @property
    def beats(self) -> list[int]:
        return list(range(self.start + BEAT_SECONDS, self.end, BEAT_SECONDS))

    def note(self, number: int) -> str | None:
        """The note of the heartbeat with this number."""
        return self.notes[number * len(self.notes) // len(self.beats)] if self.notes else None


SHIFTS = (
    Shift("github-issue-1842", "agent-1", 20, 300, ("reading the issue", "reproducing the bug")),
    Shift("github-issue-1842", "agent-3", 424, SECONDS, ("writing a fix", "running the tests")),
    Shift("nightly-report", "cron@web-1", 120, 400, ("collecting figures",), "done"),
    Shift("customer-sync-72", "worker-2", 60, 200, (), "failed", "HTTP 503 from the customer's API"),
    Shift("customer-sync-72", "worker-1", 290, 620, ("page 14 of 20",), "done"),
    Shift("customer-sync-73", "worker-2", 230, 600, ("page 3 of 90",)),
    Shift("customer-sync-73", "worker-4", 612, SECONDS, ("page 41 of 90",)),
    Shift("deploy/production", "ci-runner-7", 520, SECONDS, ("canary at 25%",)),
    Shift("cache-rebuild", "worker-1", 640, SECONDS - 75, ("shard 5 of 16",)),
    Shift("import/2026-10", "worker-4", 150, 330, ("row 80,000",), "failed", "disk quota exceeded"),
)


class Scene:
    def __init__(self) -> None:
        self._start_ms = round(time.time() * 1_000) - SECONDS * 1_000
        self._now: float | None = 0.0
        rows = MemoryRows()
        self.local = LocalStore(lambda: MemoryBackend(rows), clock=self._clock)
        self.store = OctoStore(EmbeddedPort(self.local))
        self._leases: dict[str, str] = {}
        self._plan: list[tuple[int, Callable[[], object]]] = []

    def play(self) -> None:
        self._write()
        for second, act in sorted(self._plan, key=lambda one: one[0]):
            self._now = second
            act()
        self._now = None

    def _clock(self, last: Mark) -> Mark:
        now = time.time() * 1_000 if self._now is None else self._start_ms + self._now * 1_000
        return Mark(max(round(now), last.now), "scene", 0)

    def _write(self) -> None:
        store, at = self.store, self._at
        for job_id in ("customer-sync-72", "customer-sync-73"):
            at(0, partial(store.enqueue, "sync", {"customer": job_id[-2:]}, job_id=job_id))
        for job_id in ("thumbnails-9", "thumbnails-10"):
            at(0, partial(store.enqueue, "resize", job_id=job_id, queue="media"))
        at(0, partial(store.enqueue, "import", job_id="import/2026-10", max_attempts=1))
        for shift in SHIFTS:
            self._work(shift)
        at(381, store.recover)  # as a server does regularly
        at(600, partial(store.force_release, "customer-sync-73", reason="its host is being replaced"))
        at(760, self._open_session)
        at(790, partial(store.request_stop, "deploy/production", reason="error rate is rising"))

    def _at(self, second: int, act: Callable[[], object]) -> None:
        self._plan.append((second, act))

    def _work(self, shift: Shift) -> None:
        self._at(shift.start, partial(self._claim, shift))
        for number, second in enumerate(shift.beats):
            self._at(second, partial(self._beat, shift, number))
        if shift.outcome is not None:
            self._at(shift.end, partial(self._release, shift, shift.outcome))

    def _claim(self, shift: Shift) -> None:
        reply = self.store.claim_job(shift.job_id, shift.owner, {"branch": "main"}, ttl=TTL)
        assert reply.lease_id is not None, reply
        self._leases[shift.job_id] = reply.lease_id

    def _beat(self, shift: Shift, number: int) -> None:
        note = shift.note(number)
        percent = 100 * number / len(shift.beats) if note else None
        self.store.heartbeat_job(shift.job_id, self._leases[shift.job_id], progress=note, percent=percent)

    def _release(self, shift: Shift, outcome: Outcome) -> None:
        self.store.release_job(shift.job_id, self._leases[shift.job_id], outcome, error=shift.error)

    def _open_session(self) -> None:
        self.store.open_session("review-agent", ttl=600, session_id="review-4711").save({"next": "pull request 88"})


@contextmanager
def served_scene(folder: Path) -> Iterator[ServedStore]:
    scene = Scene()
    scene.play()
    served = ServedStore(scene.local, folder)
    try:
        yield served
    finally:
        served.stop()
