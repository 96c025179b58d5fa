"""`octostore work`: run a command for each job in a queue, with the payload on stdin and the result from stdout."""

import os
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from tempfile import TemporaryFile
from typing import Any

import msgspec

from octostore.client.hold import HeldClaim
from octostore.client.store import OctoStore
from octostore.client.work import Deferred, Failed
from octostore.core.encoding import decode_strictly, encode_any, shorten
from octostore.core.errors import InvalidInput, NotAllowed, Unreachable
from octostore.core.limits import ERROR_BYTES, NOTE_BYTES, RESULT_BYTES
from octostore.core.moments import duration
from octostore.core.queue_words import pause_in_words
from octostore.stores.clock import boottime
from octostore.supervise.child_command import ChildCommand, Ending, StopPolicy
from octostore.supervise.dispositions import Dispositions
from octostore.supervise.guardian import Guardian
from octostore.supervise.notify import Notify
from octostore.supervise.report_server import ReportServer
from octostore.supervise.run import check_command, command_environment, error_text
from octostore.supervise.signal_pipe import SignalPipe
from octostore.supervise.streams import fill_closed_streams
from octostore.supervise.tail import Tail


class WorkOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The options of `octostore work`. Times in seconds."""

    queue: str
    command: Sequence[str]
    kinds: Sequence[str] | None = None
    owner: str | None = None
    ttl: float
    max_silence: float | None = None
    concurrency: int = 1
    until_empty: bool = False
    until_done: bool = False
    max_jobs: int | None = None
    deferred_exit: int
    retry_after: float | None = None
    policy: StopPolicy
    stop_signal: int = signal.SIGTERM
    keep_stderr: bool = True


def work(open_store: Callable[[], OctoStore], options: WorkOptions, notify: Notify) -> int:
    """Work until a signal arrives or `client/work_limits.py` says so, and return the number of jobs handled.

    Call it from the main thread, before starting any other: it forks one guardian per concurrent job.
    """
    fill_closed_streams()
    check_command(options.command)
    dispositions = Dispositions()
    guardians = [
        Guardian(options.command, stop_signal=options.stop_signal, dispositions=dispositions)
        for _ in range(options.concurrency)
    ]
    try:
        worker = _Worker(guardians, options, notify)
        draining = set(dispositions.forwarded) - {signal.SIGUSR1, signal.SIGUSR2}
        with open_store() as store, SignalPipe(draining) as signals:
            handled = signals.run_in_thread(lambda: worker.work(store))
            signals.wait(handled, worker.drain)
            return handled.result()
    finally:
        for guardian in guardians:
            guardian.close()


class _Worker:
    def __init__(self, guardians: Sequence[Guardian], options: WorkOptions, notify: Notify) -> None:
        self._stop = threading.Event()
        self._guardians = guardians
        self._idle: queue.SimpleQueue[Guardian] = queue.SimpleQueue()
        for guardian in guardians:
            self._idle.put(guardian)
        self._options = options
        self._notify = notify
        # Not in a cron line that empties the queue and exits: cron mails every output.
        self._reports_jobs = os.isatty(2) or not (options.until_empty or options.until_done)
        self._must_stop_now = False

    def work(self, store: OctoStore) -> int:
        options = self._options
        for guardian in self._guardians:
            guardian.check_ttl(options.ttl)
        self._introduce_queue(store)
        return store.work(
            options.queue,
            self.handle,
            kinds=options.kinds,
            owner=options.owner,
            ttl=options.ttl,
            max_silence=options.max_silence,
            concurrency=options.concurrency,
            stop=self._stop,
            until_empty=options.until_empty,
            until_done=options.until_done,
            max_jobs=options.max_jobs,
        )

    def _introduce_queue(self, store: OctoStore) -> None:
        """Say which queue this is, and whether it is paused or has no jobs: its name may be mistyped."""
        name = self._options.queue
        try:
            status = store.queue_status(name)
        except NotAllowed:
            return  # the token can claim but not read
        except Unreachable as fault:
            if fault.reason == "certificate":
                raise
            if fault.reason != "no_store":
                return
            status = None
        is_waiting = not (self._options.until_empty or self._options.until_done)
        if status is None or not (status.ready or status.later or status.claimed or status.dead or status.done):
            self._notify(f"queue {name} has no jobs, not even finished ones{'; waiting for one' if is_waiting else ''}")
        elif status.pause is not None:
            self._notify(
                f"queue {name} is {pause_in_words(status.pause)}; resume it with `octostore queue set {name} --resume`"
            )
        else:
            self._report(f"working on queue {name}")

    def _report(self, text: str) -> None:
        if self._reports_jobs:
            self._notify(text)

    def drain(self, number: int) -> None:
        """The first signal lets running commands finish; the second stops them."""
        if not self._stop.is_set():
            self._stop.set()
            self._notify(f"{signal.Signals(number).name}: no new jobs; send it again to stop the running commands")
            return
        self._must_stop_now = True
        for guardian in self._guardians:
            guardian.stop(self._options.policy.stop_grace)

    def handle(self, claim: HeldClaim) -> Any:
        """Return the job's result, or raise `Deferred` or `Failed`."""
        if self._stop.is_set():
            raise Deferred(0, "the worker was stopped before it started the job")
        guardian = self._idle.get()
        self._report(f"{claim.job_id} started ({claim.reply.kind}, attempt {claim.attempt})")
        started_at = boottime()
        try:
            ending, stdout, last_output = self._execute(guardian, claim)
        finally:
            self._idle.put(guardian)
        if ending.is_success and not ending.is_lost:
            self._report(f"{claim.job_id} finished after {duration(boottime() - started_at)}")
            return self._result(claim, stdout)
        self._notify(f"{claim.job_id}: {self._describe(ending)}")
        if guardian.is_closed:
            self._stop.set()  # without a guardian, no command can be started safely
        note = shorten(f"the command was stopped: {ending}", NOTE_BYTES)
        if ending.is_lost or self._must_stop_now or guardian.is_closed:
            raise Deferred(0, note)
        if ending.is_stopped and claim.stop_requested.is_set():
            # Not at once, or the job would run here again right after the stop request.
            raise Deferred(self._options.retry_after, note)
        if ending.code == self._options.deferred_exit:
            raise Deferred(self._options.retry_after, note_from(last_output) or None)
        raise Failed(error_text(ending, last_output))

    def _describe(self, ending: Ending) -> str:
        if ending.is_lost:
            return f"stopped the command because {ending}"
        return f"deferred ({ending})" if ending.code == self._options.deferred_exit else str(ending)

    def _execute(self, guardian: Guardian, claim: HeldClaim) -> tuple[Ending, Tail, bytes]:
        """How it ended, its stdout, and the end of its stderr."""
        options = self._options
        stdout = Tail(None, RESULT_BYTES + 1)
        stderr = Tail(2, ERROR_BYTES) if options.keep_stderr else None
        command = ChildCommand(guardian, claim, options.policy, self._notify)
        with ReportServer(claim) as reports, TemporaryFile() as stdin:
            stdin.write(encode_any("payload", claim.payload) + b"\n")
            stdin.seek(0)
            streams = (stdin.fileno(), stdout.descriptor, stderr.descriptor if stderr else 2)
            command.start(self._environment(claim, reports), streams)
            if self._must_stop_now:
                guardian.stop(options.policy.stop_grace)  # the guardian forgets orders from before the start
            stdout.close_writing()
            if stderr is not None:
                stderr.close_writing()
            ending = command.wait()
        return ending, stdout, stderr.result() if stderr is not None else b""

    def _environment(self, claim: HeldClaim, reports: ReportServer) -> dict[str, str]:
        return {
            **command_environment(claim, reports),
            "OCTOSTORE_QUEUE": self._options.queue,
            "OCTOSTORE_KIND": claim.reply.kind or "",
        }

    def _result(self, claim: HeldClaim, stdout: Tail) -> Any:
        """JSON if stdout is valid JSON, else text. None if too large: finished work is not repeated."""
        written = stdout.result()
        try:
            result = decode_strictly("result", written)
            size = len(encode_any("result", result))
        except InvalidInput:
            result = written.decode("utf-8", "replace").strip() or None
            size = len(encode_any("result", result))
        if size > RESULT_BYTES or stdout.size > len(written):
            self._notify(
                f"{claim.job_id}: its output of {stdout.size:,} bytes is too large for a result; the limit is "
                f"{RESULT_BYTES:,}"
            )
            return None
        return result


def note_from(written: bytes) -> str:
    return shorten(written.decode("utf-8", "replace").strip(), NOTE_BYTES)
