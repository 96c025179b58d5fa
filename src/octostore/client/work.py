"""Worker loops: claim the next job of a queue, run the handler under a heartbeat, settle the outcome."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeAlias

import msgspec

from octostore.client.claiming import with_new_request_id
from octostore.client.daemon_thread import run_in_daemon_thread
from octostore.client.hold import Granted, HeldClaim, KeptClaim, claim_to_hold, describe, refresh_if_old
from octostore.client.port import Port
from octostore.client.signals import catching_signals, exit_on
from octostore.client.work_limits import Turn, WorkLimits
from octostore.core.commands import Command
from octostore.core.encoding import shorten
from octostore.core.errors import LeaseLost, OctoStoreError, Unreachable
from octostore.core.limits import ERROR_BYTES, NOTE_BYTES, RETRY_AFTER_MAX_MS, check_seconds, check_size
from octostore.core.replies import ClaimReply
from octostore.core.undo import release_claim
from octostore.stores.pausing import jittered

log = logging.getLogger("octostore.work")

WAIT_SECONDS = 1.0
"""How long one claim waits for a job; in between, a worker looks whether it is to stop."""
UNREACHABLE_PAUSE_SECONDS = 1.0
STOP_GRACE_SECONDS = 2.0
"""How long handlers have to stop by themselves after the second signal."""
GIVE_UP_SECONDS = 3.0
"""And how long the store then has to take their jobs back, which expire by themselves otherwise."""
DRAINING = "%s: no new jobs; a second one stops those at hand"
WORKER_STOPPED = "whoever claimed it was told to stop"


class Deferred(Exception):  # a handler's answer, not an error
    """Raised by a handler that cannot do the job now, such as out of quota. It is not counted as an attempt."""

    def __init__(self, retry_after: float | None = None, note: str | None = None) -> None:
        super().__init__(note or "deferred")
        # Here, where the handler's own line is in the traceback, and not when its job is settled.
        check_size("note", note, NOTE_BYTES)
        if retry_after is not None:
            check_seconds("retry_after", retry_after, 0, RETRY_AFTER_MAX_MS)
        self.retry_after = retry_after
        self.note = note


class Failed(Exception):  # a handler's answer, not an error
    """Raised by a handler that knows what went wrong: its text is noted as it is, and nothing is logged."""


class Stopped(Exception):
    """By a second signal."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


News: TypeAlias = "signal.Signals | Future[int]"
"""A signal, or a worker that has ended."""
Handler = Callable[[HeldClaim], Any]
AnyClaim: TypeAlias = Command[ClaimReply]


class WorkLoop(msgspec.Struct):
    """`claim` is made anew for each job; `stop` ends the loop after the jobs at hand."""

    port: Port
    claim: AnyClaim
    handler: Handler
    stop: threading.Event
    limits: WorkLimits
    running: set[HeldClaim] = msgspec.field(default_factory=set)

    def run(self, concurrency: int) -> int:
        """How many jobs were handled, whatever became of them."""
        jobs = self.limits.jobs()
        news: SimpleQueue[News] = SimpleQueue()  # in which a signal handler may put something at any moment
        with catching_signals(news.put):
            workers = [
                run_in_daemon_thread(partial(self._run_one_worker, Turn(jobs)), "octostore-work")
                for _ in range(concurrency)
            ]
            for worker in workers:
                worker.add_done_callback(news.put)
            try:
                handled = self._wait_for(workers, news)
            except Stopped as stopped:
                exit_on(stopped.number)
            except BaseException:
                self.stop.set()
                wait(workers)
                raise
        if not news.empty():
            self.stop.set()  # a signal came in the last moment; whoever gave us `stop` should know
        return handled

    def _wait_for(self, workers: "list[Future[int]]", news: "SimpleQueue[News]") -> int:
        """One that is broken drains the others, and is raised when they have ended."""
        ended: list[Future[int]] = []
        while len(ended) < len(workers):
            try:
                # Not without end: a signal that the system gives to another thread is handled when this one wakes.
                item = news.get(timeout=WAIT_SECONDS)
            except Empty:
                continue
            if isinstance(item, Future):
                ended.append(item)
                if item.exception() is not None:
                    self.stop.set()
            else:
                self._on_signal(item, workers)
        return sum(worker.result() for worker in ended)

    def _on_signal(self, number: signal.Signals, workers: "list[Future[int]]") -> None:
        if self.stop.is_set():
            self._stop_handlers(number, workers)
            raise Stopped(number)
        self.stop.set()
        log.warning(DRAINING, number.name)

    def _stop_handlers(self, number: signal.Signals, workers: "list[Future[int]]") -> None:
        """Those that look for it stop by themselves; from the others, which end with the process, the job is taken."""
        for claim in self.running.copy():
            claim.ask_to_stop(number.name)
        wait(workers, STOP_GRACE_SECONDS)
        note = f"the worker was stopped by {number.name}"
        given_up = [
            run_in_daemon_thread(partial(claim.give_up, note), "octostore-give-up") for claim in self.running.copy()
        ]
        wait(given_up, GIVE_UP_SECONDS)

    def _run_one_worker(self, turn: Turn) -> int:
        handled = 0
        asking = with_new_request_id(self.claim)
        claimed: Granted | None = None
        while not self.stop.is_set() and turn.take():
            try:
                if claimed is None:
                    answer = self._ask(asking)
                    if answer.reply.status == "claimed":
                        claimed = answer
                    elif self.limits.is_reached(answer.reply):
                        break
                else:
                    # An answer to it that got lost is found again with the same command.
                    asking = with_new_request_id(self.claim)
                    running, claimed = claimed, None
                    turn.use()
                    claimed = self._handle(running, asking, turn)
                    handled += 1
            except LeaseLost:
                asking = with_new_request_id(self.claim)  # an answer was lost for so long that what it gave has ended
            except Unreachable as fault:
                if self.limits.until_empty or fault.reason == "closed":
                    raise
                # A job whose outcome could not be settled expires, and is retried.
                self.stop.wait(jittered(UNREACHABLE_PAUSE_SECONDS))
        if claimed is not None:
            with suppress(OctoStoreError):  # it expires by itself
                self.port.execute(release_claim(claimed.reply, WORKER_STOPPED))
        return handled

    def _ask(self, asking: AnyClaim) -> Granted:
        return claim_to_hold(self.port, asking, 0 if self.limits.until_empty else WAIT_SECONDS, False)

    def _handle(self, running: Granted, asking: AnyClaim, turn: Turn) -> Granted | None:
        """Gives the job that was claimed in the transaction that settled this one, if there was one."""
        claim = HeldClaim(self.port, running, then=lambda: asking if not self.stop.is_set() and turn.take() else None)
        self.running.add(claim)
        try:
            handle(claim, self.handler, self.stop)
        finally:
            self.running.discard(claim)
        return None if claim.following is None else refresh_if_old(self.port, claim.following)


def handle(claim: HeldClaim, handler: Handler, stop: threading.Event) -> None:
    """Run `handler` for one job. What it returns is the result; what it raises is noted and retried."""
    # Where the lease is lost the job is somebody else's now, and whatever this handler did was refused. The next job is
    # not affected.
    with suppress(LeaseLost), claim, recording_outcome(claim, stop):
        claim.end_as("done", result=handler(claim))


class Stopping(Protocol):
    def is_set(self) -> bool: ...


@contextmanager
def recording_outcome(claim: KeptClaim, stop: Stopping) -> Iterator[None]:
    """Whatever a handler raises is an outcome of its job. One that raises because it was asked to stop has not failed.

    Its job can be had at once if the whole worker stops, and after a while if only the job was to be stopped.
    """
    try:
        yield
    except Deferred as deferred:
        claim.end_as("deferred", note=deferred.note, retry_after=deferred.retry_after)
    except Failed as failed:
        claim.failure = failed
        claim.end_as("failed", error=shorten(str(failed), ERROR_BYTES))
    except Exception as error:
        if claim.is_to_stop:
            note = shorten(describe(error), NOTE_BYTES)
            claim.end_as("deferred", note=note, retry_after=0 if stop.is_set() else None)
            return
        claim.failure = error
        log.warning("job %s failed, attempt %d", claim.job_id, claim.attempt, exc_info=True)
        claim.end_as("failed", error=describe(error))
