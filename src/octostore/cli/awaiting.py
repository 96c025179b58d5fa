"""Somebody at a terminal who waits for a store that does not answer is told so, instead of wondering."""

import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from queue import SimpleQueue
from typing import Any, Protocol

from octostore.cli.console import complain
from octostore.client.embedded import EmbeddedPort
from octostore.client.store import OctoStore
from octostore.core.commands import Command, R_co
from octostore.core.questions import Question
from octostore.stores.store import LocalStore, open_store

AFTER_SECONDS = 1.0
BUSY_SECONDS = 10.0
"""For how long a store that this process opens itself is waited for: a file that others write to, a silent database."""
RECENT_SECONDS = 2.0
"""A failure that is longer ago than two attempts are apart has been got over."""
AGAIN_SECONDS = 60.0
"""How often it is said to somebody who goes on calling."""


def tell_of_silence(where: str) -> None:
    """From now on, in this process, of the server at `where`."""
    from octostore.client.http.retry_budget import ANSWER_SECONDS, RetryBudget  # noqa: PLC0415  # few commands are for one

    RetryBudget.on_new = _Lookout(where, ANSWER_SECONDS).see


def watched(url: str | None, where: str) -> OctoStore:
    """The store of `connect()`, which is not a server's, and whose silence is told."""
    return OctoStore(_WatchedPort(open_store(url), where))


class _WatchedPort(EmbeddedPort):
    def __init__(self, store: LocalStore, where: str) -> None:
        super().__init__(store)
        self._lookout = _Lookout(where, BUSY_SECONDS)

    def ask(self, question: Question[R_co]) -> R_co:
        with self._lookout.watching():
            return super().ask(question)

    def _answers(self, commands: Sequence[Command[Any]]) -> list[Any]:
        with self._lookout.watching():
            return super()._answers(commands)


class _Call(Protocol):
    fault: Exception | None
    """What went wrong last, at `failed_at`; it is tried again `until` then."""
    failed_at: float
    until: float
    is_waiting: bool
    """As it should, for something that is to happen."""


class _Question:
    fault, failed_at, until, is_waiting = None, 0.0, 0.0, False


class _Lookout:
    """Looks at each call once a second until it is over, in a thread of its own.

    `patience` is for how many seconds an answer is waited for.
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
        self.see(weakref.ref(question))
        yield

    def see(self, call: "weakref.ref[Any]") -> None:
        """A `_Call`, which is over when the reference is dead."""
        self._calls.put((time.monotonic() + AFTER_SECONDS, call))
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="octostore-lookout", daemon=True)
            self._thread.start()

    def _look(self) -> None:
        while True:
            due_at, reference = self._calls.get()
            time.sleep(max(0.0, due_at - time.monotonic()))
            call = reference()
            if call is not None:
                self._tell(call)
                self._calls.put((time.monotonic() + AFTER_SECONDS, reference))
            del call  # or it would seem to go on

    def _tell(self, call: _Call) -> None:
        now = time.monotonic()
        problem = _problem(call, now)
        if problem is None or now < self._silent_until:
            return
        self._silent_until = now + AGAIN_SECONDS
        until = max(call.until, now) if call.fault else now - AFTER_SECONDS + self._patience
        complain(f"octostore: {problem} {self._where}, trying until {moment_in(until - now)}")


def _problem(call: _Call, now: float) -> str | None:
    if call.fault is None:
        return None if call.is_waiting else "no answer yet from"
    return "cannot reach" if now < call.until and now - call.failed_at < RECENT_SECONDS else None


def moment_in(seconds: float) -> str:
    """On the clock of whoever reads it."""
    return f"{datetime.now().astimezone() + timedelta(seconds=seconds):%H:%M:%S}"
