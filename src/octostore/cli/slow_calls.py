"""Tell a person at a terminal that the store has not replied yet, so that they know what they are waiting for."""

import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from queue import SimpleQueue
from typing import Any, Protocol

from octostore.cli.console import print_stderr
from octostore.client.embedded import EmbeddedPort
from octostore.client.store import OctoStore
from octostore.core.commands import Command, R_co
from octostore.core.questions import Question
from octostore.stores.store import LocalStore, open_store

AFTER_SECONDS = 1.0
BUSY_SECONDS = 10.0
"""How long to wait for a store that this process opens itself: a busy file or a silent database."""
RECENT_SECONDS = 2.0
"""If the last failure is older than this, the store can be reached again: attempts are closer together."""
AGAIN_SECONDS = 60.0
"""The shortest time between two messages."""


def watch_server_calls(where: str) -> None:
    """Report slow calls to the server at `where`, in this process, from now on."""
    from octostore.client.http.retry_budget import RESPONSE_SECONDS, RetryBudget  # noqa: PLC0415  # only with a server

    RetryBudget.on_new = _SlowCallWatcher(where, RESPONSE_SECONDS).watch


def open_watched(url: str | None, where: str) -> OctoStore:
    """Open a file or database as `connect()` does, and report slow calls."""
    return OctoStore(_WatchedPort(open_store(url), where))


class _WatchedPort(EmbeddedPort):
    def __init__(self, store: LocalStore, where: str) -> None:
        super().__init__(store)
        self._watcher = _SlowCallWatcher(where, BUSY_SECONDS)

    def ask(self, question: Question[R_co]) -> R_co:
        with self._watcher.watching():
            return super().ask(question)

    def _execute_steps(self, steps: Sequence[Sequence[Command[Any]]]) -> list[Any]:
        with self._watcher.watching():
            return super()._execute_steps(steps)


class _Call(Protocol):
    fault: Exception | None
    """The last error; `failed_at` says when it occurred. The call is retried until `until`."""
    failed_at: float
    until: float
    is_waiting: bool
    """Whether it is a long poll, which is meant to take a while."""


class _Question:
    fault, failed_at, until, is_waiting = None, 0.0, 0.0, False


class _SlowCallWatcher:
    """Checks each call once a second until it is over, in its own thread.

    `patience` is how many seconds a call waits for its reply.
    """

    def __init__(self, where: str, patience: float) -> None:
        self._where = where
        self._patience = patience
        self._calls: SimpleQueue[tuple[float, weakref.ref[Any]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._silent_until = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        question = _Question()
        self.watch(weakref.ref(question))
        yield

    def watch(self, call: "weakref.ref[Any]") -> None:
        """Watch a `_Call`, which is over when the reference is dead."""
        self._calls.put((time.monotonic() + AFTER_SECONDS, call))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="octostore-slow-calls", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            due_at, reference = self._calls.get()
            time.sleep(max(0.0, due_at - time.monotonic()))
            call = reference()
            if call is not None:
                self._report(call)
                self._calls.put((time.monotonic() + AFTER_SECONDS, reference))
            del call  # a reference would keep it alive

    def _report(self, call: _Call) -> None:
        now = time.monotonic()
        problem = _problem(call, now)
        if problem is None or now < self._silent_until:
            return
        self._silent_until = now + AGAIN_SECONDS
        until = max(call.until, now) if call.fault else now - AFTER_SECONDS + self._patience
        print_stderr(f"octostore: {problem} {self._where}, trying until {moment_in(until - now)}")


def _problem(call: _Call, now: float) -> str | None:
    if call.fault is None:
        return None if call.is_waiting else "no reply yet from"
    return "cannot reach" if now < call.until and now - call.failed_at < RECENT_SECONDS else None


def moment_in(seconds: float) -> str:
    """Local time."""
    return f"{datetime.now().astimezone() + timedelta(seconds=seconds):%H:%M:%S}"
