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
from octostore.stores.base import Undone
from octostore.stores.batch import Answer, Committed
from octostore.stores.persist import deadline_from_now, pauses

log = logging.getLogger("octostore.writer")

MAX_BATCH = 256
"""Beyond this a larger batch is hardly cheaper per command, and makes everybody in it wait longer."""


Done: TypeAlias = Callable[[list[Answer] | Exception], None]
"""Told the answers once they are durable, or the fault because of which there are none; in the writer's thread."""


class _Submission(NamedTuple):
    commands: Sequence[AnyCommand]
    done: Done
    deadline: float
    """Until when it is patient with a place that fails."""


class Writer:
    """`run` does one transaction; `on_commit` is called with what it wrote, before its callers are answered."""

    def __init__(
        self, run: Callable[[Sequence[AnyCommand]], Committed], on_commit: Callable[[Committed], None]
    ) -> None:
        self._run = run
        self._on_commit = on_commit
        self._arriving: SimpleQueue[_Submission | None] = SimpleQueue()
        self._waiting: deque[_Submission] = deque()
        """What has arrived; like all that follows, of the writer's thread alone."""
        self._is_ending = False
        self._pauses = pauses()
        self._lock = threading.Lock()
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
            self._arriving.put(submission)

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._arriving.put(None)
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
            committed = self._run([command for submission in batch for command in submission.commands])
        except Undone as undone:
            self._waiting.extendleft(reversed(batch))
            self._give_up_on_those_until(began_at, undone.fault)
            time.sleep(next(self._pauses))
            return
        except Unreachable as fault:
            for submission in batch:
                _tell(submission, _own(fault))
            not_tried = Unreachable(
                f"it was not tried, because what came before it failed: {fault}", reason=fault.reason
            )
            self._give_up_on_those_until(time.monotonic(), not_tried)
        except Exception as bug:  # noqa: BLE001  # one caller's bug must not take down the writer, nor its neighbours
            if len(batch) == 1:
                _tell(batch[0], bug)
            else:
                for submission in batch:
                    self._commit([submission])
        else:
            self._on_commit(committed)
            answers = iter(committed.answers)
            for submission in batch:
                _tell(submission, [next(answers) for _ in submission.commands])
        self._pauses = pauses()

    def _give_up_on_those_until(self, moment: float, fault: Unreachable) -> None:
        """Whoever waits and was patient until then is told, however many batches they would be by themselves."""
        self._receive(wait=False)
        waiting = list(self._waiting)
        self._waiting = deque(submission for submission in waiting if submission.deadline >= moment)
        for submission in waiting:
            if submission.deadline < moment:
                _tell(submission, _own(fault))


def _own(fault: Unreachable) -> Unreachable:
    """Each caller raises, and so changes, an error of its own."""
    return Unreachable(str(fault), reason=fault.reason)


def _tell(submission: _Submission, outcome: list[Answer] | Exception) -> None:
    try:
        submission.done(outcome)
    except Exception:  # whoever asked may have gone in the meantime, and the others still wait
        log.exception("an answer could not be delivered")
