"""`LocalStore`: a store that this process opens itself, usable from any thread and after `fork()`."""

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
    # Jitter spreads retries; it protects nothing, so it need not be unguessable.
    return Sources(new_lease_id=new_lease_id, jitter=random.random, retry=retry or RetryPolicy())


def open_store(
    url: str | None = None, retry: RetryPolicy | None = None, on_batch: OnBatch | None = None
) -> "LocalStore":
    """The store that `url` names; see `chosen_url` for one that is not sources."""
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise InvalidInput("retry", f"must be a RetryPolicy, not {type(retry).__name__}")
    where = find_store(url)
    return LocalStore(
        where.open_backend, clock=where.clock, sources=default_sources(retry), on_batch=on_batch, place=where.place
    )


class LocalStore:
    """`open_backend` is called once in each process that uses the store: now, and in a child at its first use."""

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
        """Run `commands` in one transaction, with whatever else is waiting; the answers come when it is durable."""
        answers: Future[list[ReplyOrError]] = Future()
        # It is carried out whatever happens, so it must not be cancelled as if it were not.
        answers.set_running_or_notify_cancel()
        self.submit_to(commands, partial(_settle, answers))
        return answers

    def submit_to(self, commands: Sequence[AnyCommand], done: Done) -> None:
        """The same for those who want to be told, in the writer's thread, and do without a `Future` and its cost."""
        self.engine.submit(commands, done)

    def run_here(self, commands: Sequence[AnyCommand]) -> list[ReplyOrError] | None:
        """Run `commands` in this thread, if that takes but a moment; None if they are to be submitted."""
        return self.engine.run_here(commands)

    def found(self) -> None:
        """Make the store now, where there is none: whoever serves it to others does not wait for the first of them."""
        retrying(self.engine.backend.found)

    def ask(self, question: Question[R_co]) -> R_co:
        return self.engine.ask(question)

    def listening(self, topics: Iterable[Topic], ring: Callable[[], None]) -> AbstractContextManager[None]:
        """While the block runs, `ring` is called after every commit that touches one of `topics`."""
        return self.engine.listening(topics, ring)

    def following(self, take: Follower) -> AbstractContextManager[int]:
        """While the block runs, `take` is called with all new entries of the log; gives the seq before the first."""
        return self.engine.following(take)

    def close(self) -> None:
        """Finish what was submitted and let go of everything; calls after this raise `Unreachable`."""
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
        """Nobody is in the middle of anything when the process forks."""
        self._lock.acquire()
        if self._engine is not None:
            self._engine.backend.pause()

    def resume(self) -> None:
        if self._engine is not None:
            self._engine.backend.resume()
        self._lock.release()

    def start_afresh(self) -> None:
        """In the child: the parent's threads are not here, and its connections are closed before new ones are opened.

        SQLite keeps one account of its locks on a file for all connections of a process, and a fork copies it. With
        the parent's connections still in it, a new one would count on locks that only the parent holds.
        """
        if self._finalizer is not None:
            self._finalizer.detach()
        if self._engine is not None:
            self._engine.backend.close()
        self._engine = self._finalizer = None
        self._lock = threading.Lock()


def _settle(answers: "Future[list[ReplyOrError]]", outcome: list[ReplyOrError] | Exception) -> None:
    if isinstance(outcome, Exception):
        answers.set_exception(outcome)
    else:
        answers.set_result(outcome)


_stores: "weakref.WeakSet[LocalStore]" = weakref.WeakSet()
_paused: list[LocalStore] = []
_forking = threading.Lock()
"""Held around a fork: two threads may fork at once."""


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
