"""`LocalStore`: a store opened by this process, usable from any thread and after `fork()`."""

import os
import random
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial

from octostore.core.commands import AnyCommand, R_co
from octostore.core.errors import InvalidInput, Unreachable
from octostore.core.questions import Question
from octostore.core.retry import RetryPolicy
from octostore.core.sources import Sources
from octostore.stores.base import Backend
from octostore.stores.batch import ReplyOrError
from octostore.stores.clock import Clock, SystemClock
from octostore.stores.engine import Engine, OnBatch
from octostore.stores.ids import new_lease_id
from octostore.stores.opening import find_store
from octostore.stores.retrying import retrying
from octostore.stores.wakeups import Follower, Topic
from octostore.stores.writer import Done


def default_sources(retry: RetryPolicy | None = None) -> Sources:
    # Jitter spreads retries and protects nothing, so it may be guessable.
    return Sources(new_lease_id=new_lease_id, jitter=random.random, retry=retry or RetryPolicy())


def open_store(
    url: str | None = None, retry: RetryPolicy | None = None, on_batch: OnBatch | None = None
) -> "LocalStore":
    """The store that `url` names; without one, see `chosen_url`."""
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise InvalidInput("retry", f"must be a RetryPolicy, not {type(retry).__name__}")
    where = find_store(url)
    return LocalStore(
        where.open_backend, clock=where.clock, sources=default_sources(retry), on_batch=on_batch, place=where.place
    )


class LocalStore:
    """`open_backend` is called once per process that uses the store: now, and in a forked child on first use."""

    def __init__(
        self,
        open_backend: Callable[[], Backend],
        *,
        clock: Clock | None = None,
        sources: Sources | None = None,
        on_batch: OnBatch | None = None,
        place: str = "memory",
    ) -> None:
        self.place = place
        """Where the data is, for people to read."""
        self._open_backend = open_backend
        self._clock = clock or SystemClock()
        self._sources = sources or default_sources()
        self._on_batch = on_batch
        self._is_closed = False
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._finalizer: weakref.finalize[..., LocalStore] | None = None
        with _forking:
            _stores.add(self)
        self._start()

    def submit(self, commands: Sequence[AnyCommand]) -> "Future[list[ReplyOrError]]":
        """Run `commands` in one transaction, along with whatever else is waiting; replies arrive after the commit."""
        future: Future[list[ReplyOrError]] = Future()
        # It runs whatever happens, so it must not look cancellable.
        future.set_running_or_notify_cancel()
        self.submit_to(commands, partial(_settle, future))
        return future

    def submit_to(self, commands: Sequence[AnyCommand], done: Done) -> None:
        """Like `submit`, but calls `done` in the writer's thread, which saves the cost of a `Future`."""
        self.engine.writer.submit(commands, done)

    def run_here(self, commands: Sequence[AnyCommand]) -> list[ReplyOrError] | None:
        """Run `commands` in this thread if that takes only a moment, else return None: submit them then."""
        return self.engine.writer.run_here(commands)

    def create(self) -> None:
        """Create the store now if it does not exist, so that a server's first client does not wait for it."""
        retrying(self.engine.backend.create)

    def ask(self, question: Question[R_co]) -> R_co:
        return self.engine.ask(question)

    def listening(self, topics: Iterable[Topic], ring: Callable[[], None]) -> AbstractContextManager[None]:
        """While the block runs, call `ring` after every commit that touches one of `topics`."""
        return self.engine.wakeups.listening(topics, ring)

    def following(self, take: Follower) -> AbstractContextManager[int]:
        """While the block runs, call `take` with all new log entries; yields the seq before the first."""
        return self.engine.wakeups.following(take)

    def close(self) -> None:
        """Finish what was submitted and release everything; later calls raise `Unreachable`."""
        self._is_closed = True
        if self._finalizer is not None:
            self._finalizer()

    @property
    def engine(self) -> Engine:
        if self._is_closed:
            raise Unreachable("this store has been closed", reason="closed")
        return self._engine or self._start()

    def _start(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = Engine(self._open_backend(), self._clock, self._sources, self._on_batch)
                self._finalizer = weakref.finalize(self, self._engine.close)
            return self._engine

    # Around a fork

    def pause(self) -> None:
        """Wait until nothing is in progress, so that the process can fork."""
        self._lock.acquire()
        if self._engine is not None:
            self._engine.backend.pause()

    def resume(self) -> None:
        if self._engine is not None:
            self._engine.backend.resume()
        self._lock.release()

    def start_afresh(self) -> None:
        """In the child: the parent's threads are gone, and its connections must be closed before new ones open.

        SQLite keeps one record per process of its locks on a file, and a fork copies it. If the parent's connections
        were still in it, a new one would rely on locks that only the parent holds.
        """
        if self._finalizer is not None:
            self._finalizer.detach()
        if self._engine is not None:
            self._engine.backend.close()
        self._engine = self._finalizer = None
        self._lock = threading.Lock()


def _settle(future: "Future[list[ReplyOrError]]", outcome: list[ReplyOrError] | Exception) -> None:
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


_stores: "weakref.WeakSet[LocalStore]" = weakref.WeakSet()
_paused: list[LocalStore] = []
_forking = threading.Lock()
"""Guards a fork: two threads may fork at the same time."""


def _pause_all() -> None:
    _forking.acquire()
    for store in list(_stores):
        store.pause()
        _paused.append(store)


def _resume_all() -> None:
    while _paused:
        _paused.pop().resume()
    _forking.release()


def _start_all_afresh() -> None:
    while _paused:
        _paused.pop().start_afresh()
    _forking.release()


os.register_at_fork(before=_pause_all, after_in_parent=_resume_all, after_in_child=_start_all_afresh)
