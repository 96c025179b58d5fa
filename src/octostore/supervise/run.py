"""`octostore run`: own a job for as long as a command runs."""

import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from octostore.client.hold import HeldClaim
from octostore.client.owner import default_owner
from octostore.client.store import OctoStore
from octostore.core.encoding import shorten
from octostore.core.errors import Conflict, Held, LeaseLost, OctoStoreError, Unreachable
from octostore.core.limits import ERROR_BYTES
from octostore.core.moments import duration
from octostore.stores.clock import boottime
from octostore.stores.ids import new_request_id
from octostore.supervise.child_command import NOT_EXECUTABLE, ChildCommand, Ending, StopPolicy
from octostore.supervise.dispositions import TERMINATING_SIGNALS, Dispositions
from octostore.supervise.guardian import Guardian
from octostore.supervise.notify import Notify
from octostore.supervise.previous import previous_as_json
from octostore.supervise.report import FENCING_VARIABLE, JOB_VARIABLE, PREVIOUS_VARIABLE
from octostore.supervise.report_server import ReportServer
from octostore.supervise.signal_pipe import TICK_SECONDS, SignalPipe
from octostore.supervise.streams import fill_closed_streams, share_target
from octostore.supervise.tail import Tail
from octostore.supervise.terminal import Terminal

SECRET_VARIABLES = ("OCTOSTORE_TOKEN", "OCTOSTORE_LEASE_ID")
"""Removed from the command's environment. The command reports over its socket, and can use OCTOSTORE_TOKEN_FILE."""
NOT_FOUND = 127
UNREACHABLE_PAUSE_SECONDS = 1.0
PATIENCE_SECONDS = 3.0
"""How long to wait before saying what we are waiting for."""
LAST_CHANCE_SECONDS = 1.0
"""How long to wait, after a signal, for a claim that is being settled."""

RunOutcome: TypeAlias = Literal["released", "done", "failed"]
T = TypeVar("T")


class Interrupted(Exception):
    """A signal arrived while we waited for the job."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class CommandNotRunnable(Exception):
    """The program does not exist or is not executable; `code` is a shell's exit code for that."""

    def __init__(self, problem: str, code: int) -> None:
        super().__init__(problem)
        self.code = code


class RunOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The options of `octostore run`. Times in seconds."""

    job_id: str
    command: Sequence[str]
    ttl: float
    max_silence: float | None = None
    owner: str | None = None
    metadata: Any = None
    wait: float = 0
    once: bool = False
    on_unreachable: Literal["fail", "wait"] = "fail"
    min_hold: float = 0
    policy: StopPolicy
    stop_signal: int = signal.SIGTERM
    keep_stderr: bool = True
    is_server: bool = False
    """Whether the store is a server; opening one does not contact it yet."""


class RunResult(msgspec.Struct, kw_only=True, frozen=True):
    """The command's exit code, and the claim's outcome (None if it could not be settled)."""

    job_id: str
    exit_code: int
    outcome: RunOutcome | None
    is_lost: bool
    why: str | None
    """Why the command was stopped; None if it ended by itself."""
    fencing_token: int
    attempt: int


def run(open_store: Callable[[], OctoStore], options: RunOptions, notify: Notify) -> RunResult:
    """Run the command as the job's owner.

    Before it starts, raises `CommandNotRunnable`, or `Held`, `AlreadyDone` or `Conflict` if the job cannot be claimed.
    Call it from the main thread, before starting any other: it forks the guardian first.
    """
    fill_closed_streams()
    check_command(options.command)
    dispositions = Dispositions()
    guardian = Guardian(options.command, stop_signal=options.stop_signal, dispositions=dispositions)
    terminal = Terminal()
    try:
        return _Run(guardian, dispositions, terminal, options, notify).run(open_store)
    finally:
        guardian.close()


def check_command(command: Sequence[str]) -> None:
    """Raise `CommandNotRunnable` before anything is claimed."""
    name = command[0]
    if shutil.which(name):
        return
    if "/" in name and os.path.exists(name):  # noqa: PTH110  # a name without a slash is looked up in PATH only
        raise CommandNotRunnable(f"{name} cannot be executed; check its permissions", NOT_EXECUTABLE)
    raise CommandNotRunnable(f"command {name!r} not found; check its name and PATH", NOT_FOUND)


def command_environment(claim: HeldClaim, reports: ReportServer) -> dict[str, str]:
    trace = {} if claim.traceparent is None else {"TRACEPARENT": claim.traceparent}
    # An inherited TRACESTATE is about another trace.
    removed = {*SECRET_VARIABLES, *(["TRACESTATE"] if trace else [])}
    inherited = {name: value for name, value in os.environ.items() if name not in removed}
    return {
        **inherited,
        **reports.environment,
        **trace,
        JOB_VARIABLE: claim.job_id,
        FENCING_VARIABLE: str(claim.fencing_token),
        "OCTOSTORE_ATTEMPT": str(claim.attempt),
        PREVIOUS_VARIABLE: previous_as_json(claim.reply),
    }


class _Run:
    def __init__(
        self, guardian: Guardian, dispositions: Dispositions, terminal: Terminal, options: RunOptions, notify: Notify
    ) -> None:
        self._guardian = guardian
        self._dispositions = dispositions
        self._terminal = terminal
        self._options = options
        self._notify = notify
        self._request_id = new_request_id()
        self._owner = default_owner() if options.owner is None else options.owner
        self._has_requested = self._is_interrupted = False

    def run(self, open_store: Callable[[], OctoStore]) -> RunResult:
        with SignalPipe(self._dispositions.forwarded) as signals, ExitStack() as ending:
            on_exit, held = ExitStack(), ExitStack()
            ending.callback(self._close_store, on_exit, signals)
            claiming = signals.run_in_thread(lambda: self._open_and_claim(open_store, on_exit, held))
            try:
                signals.wait(claiming, _interrupt)
            except Interrupted:
                self._is_interrupted = True
                releasing = signals.run_in_thread(lambda: self._release_interrupted_claim(open_store, on_exit))
                signals.wait(releasing, _interrupt)
                raise
            signals.add(signal.SIGTSTP)
            return self._run_under_claim(claiming.result(), held, signals)

    def _close_store(self, on_exit: ExitStack, signals: SignalPipe) -> None:
        """Close it. It may still be retrying a write; a signal ends the wait."""
        with suppress(Interrupted):
            signals.wait(signals.run_in_thread(on_exit.close), _interrupt)

    # The claim

    def _open_and_claim(self, open_store: Callable[[], OctoStore], on_exit: ExitStack, held: ExitStack) -> HeldClaim:
        store = self._retry_while_unreachable(open_store)
        on_exit.callback(store.close)
        self._guardian.check_ttl(self._options.ttl)
        return self._retry_while_unreachable(lambda: self._reach_and_claim(store, held))

    def _retry_while_unreachable(self, attempt: Callable[[], T]) -> T:
        has_notified = False
        while True:
            try:
                return attempt()
            except Unreachable as fault:
                if self._options.on_unreachable == "fail" or self._is_interrupted or fault.reason == "certificate":
                    raise
                if not has_notified:
                    self._notify(f"{fault}; retrying until the store can be reached")
                    has_notified = True
                time.sleep(UNREACHABLE_PAUSE_SECONDS)

    def _reach_and_claim(self, store: OctoStore, held: ExitStack) -> HeldClaim:
        """Make sure that a server responds before it gets the claim. Until then, a signal has no claim to release."""
        if self._options.is_server:
            store.whoami()
        return self._claim(store, held)

    def _claim(self, store: OctoStore, held: ExitStack) -> HeldClaim:
        """Claim at once if possible; otherwise say why, and wait."""
        try:
            return held.enter_context(self._hold(store, wait=0))
        except (Held, Conflict) as refusal:
            if not self._options.wait or getattr(refusal, "status", "held") not in {"held", "delayed"}:
                raise
            self._notify(f"{refusal}; waiting up to {duration(self._options.wait)}")
        except LeaseLost:
            # An earlier attempt claimed the job, but its reply was lost and the lease has expired. Nothing was run.
            self._request_id = new_request_id()
        return held.enter_context(self._hold(store, wait=self._options.wait))

    def _hold(self, store: OctoStore, wait: float) -> AbstractContextManager[HeldClaim]:
        options = self._options
        self._has_requested = True
        if self._is_interrupted:
            raise Unreachable("interrupted", reason="closed")
        return store.hold(
            options.job_id,
            owner=self._owner,
            metadata=options.metadata,
            ttl=options.ttl,
            wait=wait,
            request_id=self._request_id,
            max_silence=options.max_silence,
        )

    def _release_interrupted_claim(self, open_store: Callable[[], OctoStore], on_exit: ExitStack) -> None:
        """Release the claim if it was granted as the signal arrived: repeating the request returns the same claim.

        This takes a second store object. Ours must be closed first, so that it does not claim once more.
        """
        on_exit.close()
        if not self._has_requested:
            return
        options = self._options
        with suppress(OctoStoreError), open_store() as store:
            reply = store.claim_job(
                options.job_id, self._owner, options.metadata, options.ttl, request_id=self._request_id
            )
            if reply.lease_id is not None:
                store.release_job(options.job_id, reply.lease_id, note="interrupted before the command started")

    # Owning the job

    def _run_under_claim(self, claim: HeldClaim, held: ExitStack, signals: SignalPipe) -> RunResult:
        claimed_at = boottime()
        ending: Ending | None = None
        outcome: RunOutcome | None = None
        try:
            with held:
                ending, last_output = self._execute(claim, signals)
                outcome = self._settle(claim, ending, last_output)
                if not ending.is_stopped:
                    self._hold_until(claimed_at + self._options.min_hold, claim, signals)
                self._end_claim(held.pop_all(), claim, signals)
        except LeaseLost as lost:
            outcome = None
            ending = (ending or Ending(code=0))._replace(is_lost=True, problem=str(lost))
        except Unreachable as fault:
            outcome = None
            problem = f"the command has ended, but its claim could not be released and will expire ({fault})"
            self._notify(problem, is_warning=True)
        return self._run_result(claim, ending or Ending(code=0), outcome)

    def _execute(self, claim: HeldClaim, signals: SignalPipe) -> tuple[Ending, bytes]:
        """How it ended, and the end of its stderr."""
        tail, streams = self._streams()
        command = ChildCommand(
            self._guardian, claim, self._options.policy, self._notify, signals=signals, terminal=self._terminal
        )
        with ReportServer(claim) as reports:
            command.start(command_environment(claim, reports), streams)
            if tail is not None:
                tail.close_writing()
            ending = command.wait()
        return ending, tail.result() if tail is not None else b""

    def _streams(self) -> tuple[Tail | None, tuple[int, int, int]]:
        """Leave a terminal alone. Copy anything else, to save the end of stderr with the job."""
        if not self._options.keep_stderr or os.isatty(2):
            return None, (0, 1, 2)
        tail = Tail(2, ERROR_BYTES)
        # If stdout and stderr share a target, copy both, or their lines would change order.
        stdout = tail.descriptor if share_target(1, 2) else 1
        return tail, (0, stdout, tail.descriptor)

    def _settle(self, claim: HeldClaim, ending: Ending, last_output: bytes) -> RunOutcome | None:
        if ending.is_lost:
            claim.let_expire()
            return None
        outcome, note, error = self._verdict(ending, last_output)
        claim.end_as(outcome, note=note, error=error)
        return outcome

    def _verdict(self, ending: Ending, last_output: bytes) -> tuple[RunOutcome, str | None, str | None]:
        """The outcome, with a note or an error."""
        if ending.is_success:
            return ("done" if self._options.once else "released"), None, None
        if ending.is_stopped:
            return "released", f"the command was stopped: {ending}", None
        return "failed", None, error_text(ending, last_output)

    def _hold_until(self, moment: float, claim: HeldClaim, signals: SignalPipe) -> None:
        while (left := moment - boottime()) > 0 and not (claim.lost.is_set() or claim.stop_requested.is_set()):
            select.select([signals], [], [], min(left, TICK_SECONDS))
            if TERMINATING_SIGNALS.intersection(signals.read()):
                return

    def _end_claim(self, held: ExitStack, claim: HeldClaim, signals: SignalPipe) -> None:
        """Retry for as long as the lease lasts, or until a signal arrives."""
        until = boottime() + claim.remaining()
        ending = signals.run_in_thread(held.close)
        try:
            if not signals.wait(ending, _interrupt_if_ending, PATIENCE_SECONDS):
                left = max(0.0, until - boottime())
                self._notify(f"the command has ended, but the store does not answer; retrying for {duration(left)}")
                signals.wait(ending, _interrupt_if_ending)
        except Interrupted as interrupted:
            if not wait([ending], LAST_CHANCE_SECONDS).done:
                raise Unreachable(f"{interrupted} arrived before the store replied", reason="network") from None
        ending.result()

    def _run_result(self, claim: HeldClaim, ending: Ending, outcome: RunOutcome | None) -> RunResult:
        return RunResult(
            job_id=claim.job_id,
            exit_code=ending.code,
            outcome=outcome,
            is_lost=ending.is_lost or claim.lost.is_set(),
            why=ending.problem,
            fencing_token=claim.fencing_token,
            attempt=claim.attempt,
        )


def error_text(ending: Ending, last_output: bytes) -> str:
    """The job's error: how the command ended, and the end of its stderr."""
    first = f"{ending}\n" if last_output else str(ending)
    room = ERROR_BYTES - len(first.encode())
    last = last_output.decode("utf-8", "replace").strip().encode()[-room:].decode("utf-8", "ignore")
    return shorten(first + last, ERROR_BYTES).strip()


def _interrupt(number: int) -> None:
    raise Interrupted(number)


def _interrupt_if_ending(number: int) -> None:
    if number in TERMINATING_SIGNALS:
        raise Interrupted(number)
