"""A port to a store that this process opens itself."""

import math
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from octostore.client.reader import follow_log
from octostore.core.commands import Batch, Command, R_co
from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.events import Event
from octostore.core.model import LOCAL
from octostore.core.questions import ListEvents, Question
from octostore.core.replies import ClaimReply
from octostore.core.session_keys import session_key
from octostore.core.undo import undo_of
from octostore.core.waiting import is_worth_waiting
from octostore.stores.base import OnStep
from octostore.stores.store import LocalStore
from octostore.stores.wakeups import EVERYTHING, Topic, topics_of_claim

if TYPE_CHECKING:
    from octostore.client.spans import Spans

UNDO_SECONDS = 5.0


class EmbeddedPort:
    spans: "Spans | None" = None

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self._undone: list[threading.Event] = []
        """Set when the claims of an interrupted call have been undone."""

    def submit(self, command: Command[R_co]) -> "Future[R_co]":
        future: Future[R_co] = Future()
        # It runs in any case, so it must not look cancelled.
        future.set_running_or_notify_cancel()
        self.store.submit_to([command], partial(_settle, future))
        return future

    def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        reply = self._execute_one(command)
        if not wait or pause_of(command, reply) is None:
            return reply
        deadline = time.monotonic() + wait
        bell = threading.Event()
        with self.store.listening(topics_of_claim(command, reply), bell.set):
            while True:
                bell.clear()
                reply = self._execute_one(command)
                pause = pause_of(command, reply)
                left = deadline - time.monotonic()
                if pause is None or left <= 0:
                    return reply
                bell.wait(min(pause, left))

    def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        return self._execute_steps(Batch(commands, atomic).steps)

    def ask(self, question: Question[R_co]) -> R_co:
        return self.store.ask(question)

    def follow(self, question: ListEvents, wait: float = math.inf) -> Iterator[Event]:
        bell = threading.Event()
        with self.store.listening(topics_of_log(question), bell.set):
            yield from follow_log(self, question, bell, wait)

    def back_up(self, copy: str, on_step: OnStep | None) -> int:
        return self.store.engine.backend.back_up(copy, on_step)

    def close(self) -> None:
        for undone in self._undone:
            undone.wait(UNDO_SECONDS)  # after that, nothing can be undone
        self.store.close()

    def _execute_one(self, command: Command[R_co]) -> R_co:
        (outcome,) = self._execute_steps([[command]])
        reply: R_co = reply_or_raise(outcome)
        return reply

    def _execute_steps(self, steps: Sequence[Sequence[Command[Any]]]) -> list[Any]:
        """Submit all steps before waiting for the first, so that the writer can put several into one transaction."""
        futures: list[Future[list[Any]]] = []
        try:
            futures.extend(map(self._submit_step, steps))
            return list(chain.from_iterable(map(_replies, steps, futures)))
        except BaseException:  # Ctrl-C, or whatever a signal handler raises
            for future in futures:
                undone = threading.Event()
                self._undone.append(undone)
                future.add_done_callback(partial(self._undo, undone))
            raise

    def _submit_step(self, commands: Sequence[Command[Any]]) -> "Future[list[Any]]":
        try:
            return self.store.submit(commands)
        except Unreachable as fault:
            refused: Future[list[Any]] = Future()
            refused.set_exception(fault)
            return refused

    def _undo(self, undone: threading.Event, future: "Future[list[Any]]") -> None:
        """Undo claims and sessions whose caller is gone: no one would ever know of them."""
        try:
            for undo in [] if future.exception() else map(undo_of, future.result()):
                if undo is not None:
                    self.submit(undo)
        finally:
            undone.set()


def _replies(commands: Sequence[Command[Any]], future: "Future[list[Any]]") -> list[Any]:
    """The replies to a step, or the fault that prevented them."""
    try:
        return future.result()
    except Unreachable as fault:
        return [fault] * len(commands)


def _settle(future: "Future[Any]", outcome: list[Any] | Exception) -> None:
    reply = outcome if isinstance(outcome, Exception) else outcome[0]
    if isinstance(reply, Exception):
        future.set_exception(reply)
    else:
        future.set_result(reply)


def reply_or_raise(outcome: Any) -> Any:
    if isinstance(outcome, OctoStoreError):
        raise outcome
    return outcome


def pause_of(command: object, reply: object) -> float | None:
    """The longest useful wait before claiming again; None if that will never help."""
    if not isinstance(reply, ClaimReply) or not is_worth_waiting(command, reply):
        return None
    # A millisecond more, to be past the moment.
    return ((reply.retry_after_ms or 0) + 1) / 1_000


def topics_of_log(question: ListEvents) -> Sequence[Topic]:
    if question.session_id is not None:
        return [("session", session_key(LOCAL, question.session_id))]
    return [EVERYTHING] if question.job_id is None else [("job", question.job_id)]
