"""Worker loops: claim the next job of a queue, run the handler under a heartbeat, settle the job."""

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
from octostore.client.hold import Granted, HeldClaim, KeptClaim, claim_to_hold, describe, refresh_own
from octostore.client.lateness import check_ttl_is_safe_here
from octostore.client.port import Port
from octostore.client.queue_calls import WorkCall
from octostore.client.signals import catching_signals, exit_on
from octostore.client.work_limits import Turn
from octostore.core.commands import Command
from octostore.core.encoding import shorten
from octostore.core.errors import InvalidInput, LeaseLost, OctoStoreError, Unreachable
from octostore.core.limits import (
    ERROR_BYTES,
    NOTE_BYTES,
    RETRY_AFTER_MAX_MS,
    check_max_run,
    check_seconds,
    check_size,
    check_whole,
)
from octostore.core.replies import ClaimReply
from octostore.core.undo import release_claim
from octostore.stores.pausing import jittered

log = logging.getLogger("octostore.work")

CONCURRENCY_MAX = 1_000
WAIT_SECONDS = 1.0
"""How long one claim waits for a job; between claims, a worker checks whether it should stop."""
UNREACHABLE_PAUSE_SECONDS = 1.0
STOP_GRACE_SECONDS = 2.0
"""How long handlers have to stop by themselves, after the second signal or after `max_run`."""
GIVE_UP_SECONDS = 3.0
"""How long to wait after that for the handlers' jobs to be released. Other leases expire."""
DRAINING = "%s: no new jobs; a second signal stops the running ones"
WORKER_STOPPED = "the worker was stopped before it started the job"


class Deferred(Exception):  # a handler's outcome, not an error
    """Raise this in a handler that cannot do the job now, for example because a quota is used up. Uses no attempt.

    Args:
        retry_after: Seconds until the job can be claimed again, 60 by default.
        note: A note for the next owner.

    Raises:
        InvalidInput: An argument is out of bounds.

    Example:
        >>> def handle(claim):
        ...     raise octostore.Deferred(retry_after=900, note="quota used up")
        >>> _ = store.enqueue("import", job_id="import-1")
        >>> _ = store.work("default", handle, until_empty=True)
        >>> store.get_job("import-1").attempts
        0
    """

    def __init__(self, retry_after: float | None = None, note: str | None = None) -> None:
        super().__init__(note or "deferred")
        # Checked here, where the traceback has the handler's own line.
        check_size("note", note, NOTE_BYTES)
        if retry_after is not None:
            check_seconds("retry_after", retry_after, 0, RETRY_AFTER_MAX_MS)
        self.retry_after = retry_after
        self.note = note


class Failed(Exception):  # a handler's outcome, not an error
    """Raise this in a handler to fail the job with your own error text, which is recorded as is and not logged.

    Like any other exception, it uses an attempt, and the job is retried while it has attempts left. Nothing that a
    handler raises fails a job for good: enqueue the job with `max_attempts=1`, or let an operator `cancel` it.

    Example:
        >>> def handle(claim):
        ...     raise octostore.Failed("the file has no header")
        >>> _ = store.enqueue("import", job_id="import-1", max_attempts=1)
        >>> _ = store.work("default", handle, until_empty=True)
        >>> store.get_job("import-1").error
        'the file has no header'
    """


class Stopped(Exception):
    """A second signal stopped the worker."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


News: TypeAlias = "signal.Signals | Future[int]"
"""A signal, or a worker that has ended."""
Handler = Callable[[HeldClaim], Any]
AnyClaim: TypeAlias = Command[ClaimReply]


def check_work(call: WorkCall) -> None:
    check_whole("concurrency", call.concurrency, 1, CONCURRENCY_MAX)
    if call.max_run is not None:
        check_max_run(call.max_run)


def work(port: Port, call: WorkCall) -> int:
    from inspect import iscoroutinefunction  # noqa: PLC0415  # slow to import, and only needed here

    check_work(call)
    if any(map(iscoroutinefunction, call.handlers.values())):
        raise InvalidInput("handler", "must be a plain function; for coroutines, open the store with connect_async()")
    check_ttl_is_safe_here(call.ttl)
    return WorkLoop(port, call, call.stop or threading.Event()).run(call.concurrency)


class Outage:
    """Logged once when it begins, and once when it ends, for all workers of a loop: otherwise they would look idle."""

    def __init__(self) -> None:
        self._is_logged = False

    def note(self, fault: Unreachable) -> None:
        if not self._is_logged:
            self._is_logged = True
            log.warning("%s; retrying until the store can be reached", fault)

    def end(self) -> None:
        if self._is_logged:
            self._is_logged = False
            log.warning("the store can be reached again")


class WorkLoop(msgspec.Struct):
    """The claim of `call` is repeated for each job; `stop` ends the loop after the running jobs."""

    port: Port
    call: WorkCall
    stop: threading.Event
    running: set[HeldClaim] = msgspec.field(default_factory=set)
    outage: Outage = msgspec.field(default_factory=Outage)

    def run(self, concurrency: int) -> int:
        """Return the number of jobs handled, whatever their outcome."""
        budget = self.call.limits.budget()
        news: SimpleQueue[News] = SimpleQueue()  # a signal handler may put something in at any moment
        with catching_signals(news.put):
            workers: list[Future[int]] = []
            try:
                for _ in range(concurrency):
                    workers.append(run_in_daemon_thread(partial(self._run_one_worker, Turn(budget)), "octostore-work"))
                    workers[-1].add_done_callback(news.put)
                handled = self._wait_for(workers, news)
            except Stopped as stopped:
                exit_on(stopped.number)
            except BaseException:
                self.stop.set()
                wait(workers)
                raise
        if not news.empty():
            self.stop.set()  # a signal came at the last moment; the caller, who may own `stop`, should know
        return handled

    def _wait_for(self, workers: "list[Future[int]]", news: "SimpleQueue[News]") -> int:
        """A worker that fails drains the others; its exception is raised when they have ended."""
        ended: list[Future[int]] = []
        while len(ended) < len(workers):
            try:
                # With a timeout: a signal that the system delivers to another thread is handled when this one wakes.
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
        """Handlers that check for it stop by themselves. The others end with the process, and lose their jobs now."""
        for claim in self.running.copy():
            claim.ask_to_stop(number.name)
        wait(workers, STOP_GRACE_SECONDS)
        note = f"the worker was stopped by {number.name}"
        giving_up = [
            run_in_daemon_thread(partial(claim.give_up, note), "octostore-give-up") for claim in self.running.copy()
        ]
        wait(giving_up, GIVE_UP_SECONDS)

    def _run_one_worker(self, turn: Turn) -> int:
        handled = 0
        request = with_new_request_id(self.call.claim)
        claimed: Granted | None = None
        while not self.stop.is_set() and turn.take():
            try:
                if claimed is None:
                    outcome = self._ask(request)
                    if outcome.reply.status == "claimed":
                        claimed = outcome
                    elif self.call.limits.is_reached(outcome.reply):
                        break
                else:
                    # If its reply is lost, the same command finds the claim again.
                    request = with_new_request_id(self.call.claim)
                    current, claimed = claimed, None
                    turn.use()
                    claimed = self._handle(current, request, turn)
                    handled += 1
            except LeaseLost:
                request = with_new_request_id(self.call.claim)  # a reply was lost until its claim had ended
            except Unreachable as fault:
                if self.call.limits.until_empty or fault.reason == "closed":
                    raise
                self.outage.note(fault)
                # A job that could not be settled expires, and is retried.
                self.stop.wait(jittered(UNREACHABLE_PAUSE_SECONDS))
            else:
                self.outage.end()
        if claimed is not None:
            with suppress(OctoStoreError):  # it expires by itself
                self.port.execute(release_claim(claimed.reply, WORKER_STOPPED))
        return handled

    def _ask(self, request: AnyClaim) -> Granted:
        return claim_to_hold(self.port, request, 0 if self.call.limits.until_empty else WAIT_SECONDS, False)

    def _handle(self, current: Granted, request: AnyClaim, turn: Turn) -> Granted | None:
        """Return the job that was claimed in the transaction that settled this one, if any."""

        def claim_next() -> AnyClaim | None:
            return request if not self.stop.is_set() and turn.take() else None

        claim = HeldClaim(self.port, current, claim_next=claim_next)
        self.running.add(claim)
        try:
            handle(claim, self.call.handler_for(claim.kind), self.stop, self.call.max_run)
        finally:
            self.running.discard(claim)
        return None if claim.following is None else refresh_own(self.port, claim.following)


def handle(claim: HeldClaim, handler: Handler, stop: threading.Event, max_run: float | None = None) -> None:
    # If the lease is lost, the job is someone else's now, and the store refuses this outcome. The next job is fine.
    with suppress(LeaseLost), claim, recording_outcome(claim, stop), limiting_time(claim, max_run):
        claim.end_as("done", result=handler(claim))


def overrun(max_run: float) -> str:
    return f"still running after {max_run:g} s (max_run)"


@contextmanager
def limiting_time(claim: HeldClaim, max_run: float | None) -> Iterator[None]:
    """Ask the handler to stop after `max_run` seconds, and fail the job if it does not."""
    if max_run is None:
        yield
        return
    error, has_returned = overrun(max_run), threading.Event()

    def enforce() -> None:
        if not has_returned.wait(max_run):
            claim.ask_to_stop(error)
            if not has_returned.wait(STOP_GRACE_SECONDS):
                claim.give_up(error, "failed")

    run_in_daemon_thread(enforce, "octostore-max-run")
    try:
        yield
    except (Deferred, Failed):
        raise
    except BaseException as raised:
        if claim.stop_reason == error and _is_failure(raised):
            raise Failed(error) from raised
        raise
    finally:
        has_returned.set()


class Stopping(Protocol):
    def is_set(self) -> bool: ...


@contextmanager
def recording_outcome(claim: KeptClaim, stop: Stopping) -> Iterator[None]:
    """Turn what a handler raises into its job's outcome.

    A handler that raises after it was asked to stop has not failed: its job is available at once if the whole worker
    stops, and after a while if only the job was to stop.
    """
    try:
        yield
    except Deferred as deferred:
        claim.end_as("deferred", note=deferred.note, retry_after=deferred.retry_after)
    except Failed as failed:
        claim.failure = failed
        claim.end_as("failed", error=shorten(str(failed), ERROR_BYTES))
    except BaseException as error:
        if not _is_failure(error):
            raise
        if claim.is_to_stop:
            note = shorten(describe(error), NOTE_BYTES)
            claim.end_as("deferred", note=note, retry_after=0 if stop.is_set() else None)
            return
        claim.failure = error
        log.warning("job %s failed, attempt %d", claim.job_id, claim.attempt, exc_info=True)
        claim.end_as("failed", error=describe(error))


def _is_failure(error: BaseException) -> bool:
    """Whether the handler failed, and not the worker.

    A handler that exits, or that awaits something cancelled, has failed: a released job would be the first in line for
    the next worker, and end that one, too.
    """
    if isinstance(error, Exception | SystemExit):
        return True
    import asyncio  # noqa: PLC0415  # slow to import, and rarely needed

    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return True
    return task is None or not task.cancelling()
