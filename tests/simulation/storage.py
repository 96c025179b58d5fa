"""The store that all processes share, and how it fails.

A transaction is never interrupted: threads switch before it begins and after it is committed. So kills and pauses hit
"not yet committed" and "committed, but without a reply".
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from octostore.core.errors import Unreachable
from octostore.core.needs import Needs
from octostore.core.working_set import WorkingSet
from octostore.stores.base import Backend, OnStep, TryAgain
from octostore.stores.clock import Mark
from octostore.stores.memory import MemoryBackend, MemoryRows
from octostore.stores.sqlite import SqliteBackend
from tests.simulation.faults import Fault, Faults
from tests.simulation.primitives import Lock
from tests.simulation.scheduler import Process, Scheduler
from tests.simulation.story import Story

BUSY_SECONDS = 5.0
"""How long a transaction waits for another process."""
POLL_SECONDS = 20.0
"""How often processes poll the log; they also get notified of commits, as with PostgreSQL."""
NOTICE_SECONDS = 0.05


class Witness(Protocol):
    """Called after each commit, before the next transaction can begin."""

    def committed(self, process: Process, ws: WorkingSet) -> None: ...


class Storage:
    """`path` is a SQLite file; None keeps rows in memory."""

    def __init__(self, scheduler: Scheduler, faults: Faults, story: Story, path: Path | None) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.story = story
        self.path = path
        self.rows = MemoryRows()
        self.lock = Lock()
        self.gone_until = 0.0
        self.witness: Witness | None = None
        self.commits = 0
        self.on_trouble: Callable[[], None] = lambda: None
        """Called when it fails or is slow."""
        self._bells: list[tuple[Process, Callable[[], None]]] = []
        self._backends: list[FaultyBackend] = []

    def open(self, process: Process) -> "FaultyBackend":
        inner: Backend = MemoryBackend(self.rows) if self.path is None else SqliteBackend(self.path)
        backend = FaultyBackend(self, process, inner)
        self._backends.append(backend)
        process.at_death.append(lambda: self._drop(backend))
        return backend

    def close(self) -> None:
        for backend in self._backends:
            backend.inner.close()

    def on_foreign_commit(self, process: Process, ring: Callable[[], None]) -> None:
        self._bells.append((process, ring))

    def announce(self, process: Process) -> None:
        """Notify the other processes, a moment later."""
        self._bells = [bell for bell in self._bells if not bell[0].is_dead]
        delay = NOTICE_SECONDS * self.faults.stream("notices").random()
        for other, ring in self._bells:
            if other is not process:
                self.scheduler.at(self.scheduler.now + delay, ring)

    def _drop(self, backend: "FaultyBackend") -> None:
        holder = self.lock.holder
        if holder is not None and holder.process is backend.process:
            self.lock.release()
        backend.inner.close()
        self._backends.remove(backend)


class FaultyBackend:
    """A `Backend` for one process."""

    def __init__(self, storage: Storage, process: Process, inner: Backend) -> None:
        self.inner = inner
        self.process = process
        self._storage = storage

    def create(self) -> None:
        self.inner.create()

    def back_up(self, copy: str, on_step: OnStep | None) -> int:
        return self.inner.back_up(copy, on_step)

    def writing(self, needs: Needs) -> AbstractContextManager[Any]:
        return self._writing(needs, BUSY_SECONDS)

    def writing_at_once(self, needs: Needs) -> AbstractContextManager[Any]:
        return self._writing(needs, 0)

    @contextmanager
    def _writing(self, needs: Needs, patience: float) -> Iterator[Any]:
        storage = self._storage
        fault = storage.faults.of_transaction(self.process.name)
        if not storage.lock.acquire(timeout=patience):
            raise Unreachable("another process has been writing for too long", reason="busy")
        try:
            self._fail_before(fault)
            with self.inner.writing(needs) as writing:
                saving = Saving(writing)
                yield saving
            if saving.ws is not None:
                self._on_commit(saving.ws)
            self._fail_after(fault)
        finally:
            if not storage.scheduler.is_over:
                storage.lock.release()
        storage.scheduler.maybe_give_way()

    @contextmanager
    def reading(self) -> Iterator[Any]:
        self._check_available()
        with self.inner.reading() as reading:
            yield reading

    def on_foreign_commit(self, ring: Callable[[], None]) -> None:
        self._storage.on_foreign_commit(self.process, ring)

    @property
    def poll_seconds(self) -> float:
        return POLL_SECONDS

    def pause(self) -> None:
        self.inner.pause()

    def resume(self) -> None:
        self.inner.resume()

    def close(self) -> None:
        """Nothing to do: connections are closed when the process ends."""

    def _check_available(self) -> None:
        storage = self._storage
        if storage.scheduler.now < storage.gone_until:
            storage.on_trouble()
            raise Unreachable("the store is gone", reason="io")

    def _fail_before(self, fault: Fault | None) -> None:
        self._check_available()
        if fault is None:
            return
        storage = self._storage
        storage.on_trouble()
        storage.story.add(self.process.name, f"! store: {fault.kind} [{fault.name}]")
        match fault.kind:
            case "busy" | "disk_full" | "io":
                raise Unreachable(f"the store fails: {fault.kind}", reason=fault.kind)
            case "undone":
                raise TryAgain(Unreachable("the store fails for a moment", reason="io"))

    def _fail_after(self, fault: Fault | None) -> None:
        if fault is not None and fault.kind == "slow":
            # With the lock held, as if a disk was slow to sync.
            self._storage.scheduler.sleep(fault.chance.choice([0.05, 0.5, 4]) * fault.chance.random())
            self._storage.on_trouble()
        if fault is not None and fault.kind == "outcome unknown":
            raise Unreachable("it is unknown whether this was committed", reason="io")

    def _on_commit(self, ws: WorkingSet) -> None:
        storage = self._storage
        storage.commits += 1
        if storage.witness is not None:
            storage.witness.committed(self.process, ws)
        if ws.entries:
            storage.announce(self.process)


class Saving:
    """A transaction that remembers what it saved."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ws: WorkingSet | None = None

    def save(self, ws: WorkingSet, mark: Mark) -> None:
        self._inner.save(ws, mark)
        self.ws = ws

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
