"""Group commit: commands wait in a queue, and one thread runs all that are there in one transaction.

Nothing is answered before that transaction is durable.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeAlias

from octostore.core.commands import AnyCommand
from octostore.core.errors import Unreachable
from octostore.stores.batch import Answer, Committed

log = logging.getLogger("octostore.writer")

MAX_BATCH = 256
"""Beyond this a larger batch is hardly cheaper per command, and makes everybody in it wait longer."""


Done: TypeAlias = Callable[[list[Answer] | Exception], None]
"""Told the answers once they are durable, or the fault because of which there are none; in the writer's thread."""


class _Submission(NamedTuple):
    commands: Sequence[AnyCommand]
    done: Done


class Writer:
    """`run` does one transaction; `on_commit` is called with what it wrote, before its callers are answered."""

    def __init__(
        self, run: Callable[[Sequence[AnyCommand]], Committed], on_commit: Callable[[Committed], None]
    ) -> None:
        self._run = run
        self._on_commit = on_commit
        self._waiting: SimpleQueue[_Submission | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, commands: Sequence[AnyCommand], done: Done) -> None:
        """Run `commands`, in order and all of them in one transaction, and tell `done`."""
        with self._lock:
            if self._is_closed:
                raise Unreachable("this store has been closed", reason="closed")
            if self._thread is None or self._thread.ident is None:  # Ctrl-C may have come before it was started
                self._thread = threading.Thread(target=self._work, name="octostore-writer", daemon=True)
                self._thread.start()
            self._waiting.put(_Submission(commands, done))

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._waiting.put(None)
        # A store that nobody uses any more may be let go of, and so closed, in any thread: also in this one.
        if thread is not None and thread.ident is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            size = len(first.commands)
            while size < MAX_BATCH:
                try:
                    following = self._waiting.get_nowait()
                except Empty:
                    break
                if following is None:
                    self._waiting.put(None)  # after this batch
                    break
                batch.append(following)
                size += len(following.commands)
            self._commit(batch)

    def _commit(self, batch: list[_Submission]) -> None:
        try:
            committed = self._run([command for submission in batch for command in submission.commands])
        except Unreachable as fault:
            for submission in batch:
                # Each caller raises, and so changes, an error of its own.
                _tell(submission, Unreachable(str(fault), reason=fault.reason))
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


def _tell(submission: _Submission, outcome: list[Answer] | Exception) -> None:
    try:
        submission.done(outcome)
    except Exception:  # whoever asked may have gone in the meantime, and the others still wait
        log.exception("an answer could not be delivered")
