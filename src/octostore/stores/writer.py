"""Group commit: commands wait in a queue, and one thread runs everything that is waiting in one transaction.

Callers get their reply after the commit.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeAlias

from octostore.core.commands import AnyCommand
from octostore.core.errors import Unreachable
from octostore.stores.base import TryAgain
from octostore.stores.batch import Committed, ReplyOrError
from octostore.stores.pace import Pace
from octostore.stores.retrying import deadline_from_now, pauses

log = logging.getLogger("octostore.writer")

MAX_BATCH = 256
"""Larger batches gain little per command, and make everyone in them wait longer."""


Done: TypeAlias = Callable[[list[ReplyOrError] | Exception], None]
"""Called in the writer's thread, with the replies after the commit, or with the fault."""


Run: TypeAlias = Callable[[Sequence[AnyCommand]], Committed]
"""One transaction."""


class _Submission(NamedTuple):
    commands: Sequence[AnyCommand]
    done: Done
    deadline: float
    """When it stops waiting for a failing store."""


class Writer:
    """Calls `on_commit` with what a transaction wrote, before its callers get their replies.

    `run_at_once` runs a transaction without waiting for other processes, if the store can.
    """

    def __init__(self, run: Run, on_commit: Callable[[Committed], None], run_at_once: Run | None = None) -> None:
        self._run = run
        self._run_at_once = run_at_once
        self._pace = Pace()
        self._on_commit = on_commit
        self._arriving: SimpleQueue[_Submission | None] = SimpleQueue()
        self._waiting: deque[_Submission] = deque()
        """Submissions taken from the queue. This and the next two are used only by the writer's thread."""
        self._is_ending = False
        self._pauses = pauses()
        self._lock = threading.Lock()
        self._unfinished = 0
        """The number of submissions without a reply yet."""
        self._turn = threading.Lock()
        """Guards the transaction, in the writer's thread or in a caller's (`run_here`)."""
        self._thread: threading.Thread | None = None
        self._working = threading.Lock()
        """Lets one thread work at a time: if Ctrl-C interrupts the start of one, `submit` may start a second."""
        self._is_closed = False

    def submit(self, commands: Sequence[AnyCommand], done: Done) -> None:
        """Run `commands` in order, all in one transaction, and call `done`."""
        submission = _Submission(commands, done, deadline_from_now())
        with self._lock:
            if self._is_closed:
                raise Unreachable("this store has been closed", reason="closed")
            if self._thread is None or self._thread.ident is None:  # Ctrl-C may have interrupted us before it started
                self._thread = threading.Thread(target=self._work, name="octostore-writer", daemon=True)
                self._thread.start()
            self._unfinished += 1
            self._arriving.put(submission)

    def run_here(self, commands: Sequence[AnyCommand]) -> list[ReplyOrError] | None:
        """Run `commands` in this thread if that takes only a moment, else return None: submit them then.

        Switching to another thread and back takes longer than a claim itself.
        """
        run = self._run_at_once
        if run is None or self._unfinished or not self._pace.is_quick or not self._turn.acquire(blocking=False):
            return None
        try:
            committed = None if self._is_closed or self._unfinished else self._tried(run, commands)
            if committed is None:
                return None
            self._on_commit(committed)
            return committed.replies
        finally:
            self._turn.release()

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._arriving.put(None)
        with self._turn:
            pass  # wait until no transaction is running
        # The last reference to a store, and so its closing, may be dropped in any thread, including this one.
        if thread is not None and thread.ident is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        with self._working:
            while batch := self._next_batch():
                self._commit(batch)

    def _receive(self, *, wait: bool) -> None:
        """Take everything that has arrived; with `wait`, at least one."""
        try:
            while not self._is_ending:
                arrived = self._arriving.get(block=wait and not self._waiting)
                if arrived is None:
                    self._is_ending = True
                else:
                    self._waiting.append(arrived)
        except Empty:
            return

    def _next_batch(self) -> list[_Submission]:
        """Empty once the writer is closing and has nothing left to do."""
        self._receive(wait=True)
        batch: list[_Submission] = []
        size = 0
        while self._waiting and size < MAX_BATCH:
            batch.append(self._waiting.popleft())
            size += len(batch[-1].commands)
        return batch

    def _commit(self, batch: list[_Submission]) -> None:
        began_at = time.monotonic()
        try:
            with self._turn:
                committed = self._timed(self._run, [command for submission in batch for command in submission.commands])
        except TryAgain as failed:
            self._waiting.extendleft(reversed(batch))
            self._fail_those_due_before(began_at, failed.fault)
            time.sleep(next(self._pauses))
            return
        except Unreachable as fault:
            for submission in batch:
                self._deliver(submission, _own(fault))
            not_tried = Unreachable(f"not tried, because the write before it failed: {fault}", reason=fault.reason)
            self._fail_those_due_before(time.monotonic(), not_tried)
        except Exception as bug:  # noqa: BLE001  # one caller's bug must not break the writer or other callers
            if len(batch) == 1:
                self._deliver(batch[0], bug)
            else:
                for submission in batch:
                    self._commit([submission])
        else:
            self._on_commit(committed)
            replies = iter(committed.replies)
            for submission in batch:
                self._deliver(submission, [next(replies) for _ in submission.commands])
        self._pauses = pauses()

    def _tried(self, run: Run, commands: Sequence[AnyCommand]) -> Committed | None:
        """None if nothing was written; the writer's thread then deals with it."""
        try:
            return self._timed(run, commands)
        except Unreachable as fault:
            if fault.reason == "busy":
                return None
            raise
        except Exception:  # noqa: BLE001  # it may be a bug: the writer's thread reports it to the right caller
            return None

    def _timed(self, run: Run, commands: Sequence[AnyCommand]) -> Committed:
        committed = run(commands)
        self._pace.note(committed.seconds)
        return committed

    def _fail_those_due_before(self, moment: float, fault: Unreachable) -> None:
        """Fail all submissions whose deadline is before `moment`, however many batches they would fill."""
        self._receive(wait=False)
        waiting = list(self._waiting)
        self._waiting = deque(submission for submission in waiting if submission.deadline >= moment)
        for submission in waiting:
            if submission.deadline < moment:
                self._deliver(submission, _own(fault))

    def _deliver(self, submission: _Submission, outcome: list[ReplyOrError] | Exception) -> None:
        with self._lock:
            self._unfinished -= 1
        try:
            submission.done(outcome)
        except Exception:  # the caller may already be gone, and others are waiting
            log.exception("a reply could not be delivered")


def _own(fault: Unreachable) -> Unreachable:
    """A copy: each caller raises, and so modifies, its own exception."""
    return Unreachable(str(fault), reason=fault.reason)
