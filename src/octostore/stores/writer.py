"""Group commit: commands wait in a queue, and one thread runs all that are there in one transaction.

Nothing is answered before that transaction is durable.
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
"""Beyond this a larger batch is hardly cheaper per command, and makes everybody in it wait longer."""


Done: TypeAlias = Callable[[list[ReplyOrError] | Exception], None]
"""Told the answers once they are durable, or the fault because of which there are none; in the writer's thread."""


Run: TypeAlias = Callable[[Sequence[AnyCommand]], Committed]
"""One transaction."""


class _Submission(NamedTuple):
    commands: Sequence[AnyCommand]
    done: Done
    deadline: float
    """Until when it is patient with a place that fails."""


class Writer:
    """`on_commit` is called with what a transaction wrote, before its callers are answered.

    `run_at_once` does one without waiting for other processes, where that is possible.
    """

    def __init__(self, run: Run, on_commit: Callable[[Committed], None], run_at_once: Run | None = None) -> None:
        self._run = run
        self._run_at_once = run_at_once
        self._pace = Pace()
        self._on_commit = on_commit
        self._arriving: SimpleQueue[_Submission | None] = SimpleQueue()
        self._waiting: deque[_Submission] = deque()
        """What has arrived; like all that follows, of the writer's thread alone."""
        self._is_ending = False
        self._pauses = pauses()
        self._lock = threading.Lock()
        self._unfinished = 0
        """How many submissions have not been answered yet."""
        self._turn = threading.Lock()
        """Held by whoever is in a transaction: the writer's thread, or one that could not wait for it."""
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, commands: Sequence[AnyCommand], done: Done) -> None:
        """Run `commands`, in order and all of them in one transaction, and tell `done`."""
        submission = _Submission(commands, done, deadline_from_now())
        with self._lock:
            if self._is_closed:
                raise Unreachable("this store has been closed", reason="closed")
            if self._thread is None or self._thread.ident is None:  # Ctrl-C may have come before it was started
                self._thread = threading.Thread(target=self._work, name="octostore-writer", daemon=True)
                self._thread.start()
            self._unfinished += 1
            self._arriving.put(submission)

    def run_here(self, commands: Sequence[AnyCommand]) -> list[ReplyOrError] | None:
        """Run `commands` in this thread, if that takes but a moment; None if they are to be submitted.

        Handing over to another thread and back takes longer than a claim by itself.
        """
        run = self._run_at_once
        if run is None or self._unfinished or not self._pace.is_quick or not self._turn.acquire(blocking=False):
            return None
        try:
            committed = None if self._is_closed or self._unfinished else self._tried(run, commands)
            if committed is None:
                return None
            self._on_commit(committed)
            return committed.answers
        finally:
            self._turn.release()

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._arriving.put(None)
        with self._turn:
            pass  # nobody is in the middle of anything any more
        # A store that nobody uses any more may be let go of, and so closed, in any thread: also in this one.
        if thread is not None and thread.ident is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            self._commit(batch)

    def _receive(self, *, wait: bool) -> None:
        """Take all that has arrived; with `wait`, at least something."""
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
        """Nothing when there is nothing to come either."""
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
            self._give_up_on_those_until(began_at, failed.fault)
            time.sleep(next(self._pauses))
            return
        except Unreachable as fault:
            for submission in batch:
                self._tell(submission, _own(fault))
            not_tried = Unreachable(f"not tried, because the write before it failed: {fault}", reason=fault.reason)
            self._give_up_on_those_until(time.monotonic(), not_tried)
        except Exception as bug:  # noqa: BLE001  # one caller's bug must not take down the writer, nor its neighbours
            if len(batch) == 1:
                self._tell(batch[0], bug)
            else:
                for submission in batch:
                    self._commit([submission])
        else:
            self._on_commit(committed)
            answers = iter(committed.answers)
            for submission in batch:
                self._tell(submission, [next(answers) for _ in submission.commands])
        self._pauses = pauses()

    def _tried(self, run: Run, commands: Sequence[AnyCommand]) -> Committed | None:
        """None where nothing was done, for a reason that the thread deals with."""
        try:
            return self._timed(run, commands)
        except Unreachable as fault:
            if fault.reason == "busy":
                return None
            raise
        except Exception:  # noqa: BLE001  # be it a bug: the thread tells it to whoever met it
            return None

    def _timed(self, run: Run, commands: Sequence[AnyCommand]) -> Committed:
        committed = run(commands)
        self._pace.note(committed.seconds)
        return committed

    def _give_up_on_those_until(self, moment: float, fault: Unreachable) -> None:
        """Whoever waits and was patient until then is told, however many batches they would be by themselves."""
        self._receive(wait=False)
        waiting = list(self._waiting)
        self._waiting = deque(submission for submission in waiting if submission.deadline >= moment)
        for submission in waiting:
            if submission.deadline < moment:
                self._tell(submission, _own(fault))

    def _tell(self, submission: _Submission, outcome: list[ReplyOrError] | Exception) -> None:
        with self._lock:
            self._unfinished -= 1
        try:
            submission.done(outcome)
        except Exception:  # whoever asked may have gone in the meantime, and the others still wait
            log.exception("an answer could not be delivered")


def _own(fault: Unreachable) -> Unreachable:
    """Each caller raises, and so changes, an error of its own."""
    return Unreachable(str(fault), reason=fault.reason)
