"""One command under one claim, from its start until none of its processes are left."""

import os
import select
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

from octostore.client.hold import HeldClaim
from octostore.client.lateness import own_lateness
from octostore.client.signals import SIGNALLED
from octostore.core.errors import LeaseLost, NotFound
from octostore.core.moments import duration
from octostore.stores.clock import boottime
from octostore.supervise import messages as m
from octostore.supervise.dispositions import TERMINATING_SIGNALS
from octostore.supervise.guardian import Guardian, GuardianDied
from octostore.supervise.lease import Lease
from octostore.supervise.notify import Notify
from octostore.supervise.outage import Outage
from octostore.supervise.processes import descendants
from octostore.supervise.signal_pipe import TICK_SECONDS, SignalPipe
from octostore.supervise.terminal import Terminal, stop_own_group

NOT_EXECUTABLE = 126
TIMED_OUT = 124
"""The exit code that `timeout` uses, for a command that exited with 0 after we stopped it."""

OnSilence: TypeAlias = Literal["report", "stop"]


class StopPolicy(NamedTuple):
    """When and how a command is stopped. Times in seconds."""

    stop_grace: float
    max_run: float | None = None
    stop_leftovers: bool = False
    """Stop the processes that the command leaves running; otherwise wait for them."""
    on_silence: OnSilence = "report"
    """What to do if it reports no progress within the claim's `max_silence`."""


class Ending(NamedTuple):
    """How a command ended. `code` is a shell's exit code: 128 plus the number of the signal that killed it."""

    code: int
    problem: str | None = None
    """Why it did not end by itself, for people."""
    is_lost: bool = False
    is_stopped: bool = False
    """Whether a signal or a stop request ended it, which is not a failure."""
    not_started: int | None = None
    """The errno, if it could not be started."""

    @property
    def is_success(self) -> bool:
        return self.code == 0 and self.problem is None

    def __str__(self) -> str:
        if self.not_started is not None:
            return f"the command could not be started: {os.strerror(self.not_started)}"
        if self.problem is not None:
            return self.problem
        if self.code > SIGNALLED:
            with suppress(ValueError):
                return f"killed by {signal.Signals(self.code - SIGNALLED).name}"
        return f"exit code {self.code}"


class ChildCommand:
    """Starts the command through the guardian, and follows it until the end."""

    def __init__(
        self,
        guardian: Guardian,
        claim: HeldClaim,
        policy: StopPolicy,
        notify: Notify,
        *,
        signals: SignalPipe | None = None,
        terminal: Terminal | None = None,
    ) -> None:
        self._guardian = guardian
        self._claim = claim
        self._policy = policy
        self._notify = notify
        self._outage = Outage(claim, notify)
        self._signals = signals
        self._terminal = terminal
        self._run_number: int | None = None
        self._group = 0
        self._code: int | None = None
        self._problem: str | None = None
        self._is_gone = self._is_lost = self._has_killed = self._is_stopped = self._is_stuck = self._is_over = False
        self._has_stop_request = self._has_reported_leftovers = False
        self._not_started: int | None = None
        self._ends_at = float("inf") if policy.max_run is None else boottime() + policy.max_run
        self._lease = Lease(-float("inf"), 0, 0, 0)
        self._orders_lock = threading.Lock()
        """Guards orders from other threads, so that none reaches the guardian's next command."""

    def start(self, environment: Mapping[str, str], streams: tuple[int, int, int]) -> None:
        """Start it. The caller may close `streams` afterwards."""
        self._lease = self._lease_until(self._claim.watch(self._update_lease, self._kill_as_lost))
        in_foreground = self._terminal is not None and self._terminal.is_exclusively_ours
        self._run_number = self._guardian.start(environment, streams, self._lease, in_foreground=in_foreground)
        # The lease may have been renewed or lost meanwhile; the guardian forgets orders from before the start.
        self._update_lease(self._claim.watch(self._update_lease, self._kill_as_lost))
        if self._claim.lost.is_set():
            self._kill_as_lost()

    def wait(self) -> Ending:
        try:
            while not self._step():
                pass
        except GuardianDied:
            self._guardian.end_orphans()
            self._code, self._problem = -signal.SIGKILL, "the process supervising the command was killed"
        finally:
            with self._orders_lock:
                self._is_over = True
            if self._terminal is not None:
                self._terminal.reclaim_from(self._group)
        return self._ending()

    def _ending(self) -> Ending:
        code = self._code or (TIMED_OUT if self._problem else 0)
        is_lost = self._is_lost or self._claim.lost.is_set()
        return Ending(
            code=code if code >= 0 else SIGNALLED - code,
            problem=self._why_lost() if is_lost else self._problem,
            is_lost=is_lost,
            is_stopped=self._is_stopped,
            not_started=self._not_started,
        )

    def _why_lost(self) -> str:
        try:
            self._claim.check()
        except (LeaseLost, NotFound) as lost:
            return str(lost)
        return str(LeaseLost(self._claim.job_id, "it could not be renewed in time"))

    def _step(self) -> bool:
        """Wait for and handle whatever comes next; whether nothing of the command is left."""
        kill_at = float("inf") if self._has_killed else self._lease.kill_at()
        left = max(0.0, min(TICK_SECONDS, min(self._ends_at, kill_at) - boottime()))
        sources = [self._guardian.fileno(), *([self._signals.fileno()] if self._signals else [])]
        select.select(sources, [], [], left)
        for number in self._signals.read() if self._signals else ():
            self._forward_signal(number)
        self._handle_stop_request()
        self._handle_silence()
        updates = self._guardian.read_updates(0)
        if not updates:
            self._report_leftovers()
        for update in updates:
            self._is_gone = self._apply(update) or self._is_gone
        if not self._is_gone:
            self._enforce_deadlines()
        return self._is_gone

    def _handle_stop_request(self) -> None:
        if self._has_stop_request or not self._claim.stop_requested.is_set():
            return
        self._has_stop_request = True
        why = self._claim.stop_reason
        self._stop("asked to stop" + (f" ({why})" if why else ""), is_failure=False)

    def _enforce_deadlines(self) -> None:
        if boottime() >= self._ends_at:
            self._ends_at = float("inf")
            self._stop(f"still running after {duration(self._policy.max_run or 0)} (--max-run)")
        self._outage.report(self._lease.stop_at())
        if own_lateness.worst(boottime()) > self._lease.delay:
            self._update_lease(self._lease.ends_at)  # the machine is busier now; the guardian needs a new margin
        if boottime() >= self._lease.kill_at() and not self._has_killed:
            self._kill_as_lost()  # the guardian does the same, unless it is paused

    def _handle_silence(self) -> None:
        was_stuck, self._is_stuck = self._is_stuck, self._claim.stuck
        if was_stuck or not self._is_stuck or self._problem is not None:
            return
        silence = duration(self._claim.reply.max_silence or 0)
        if self._policy.on_silence == "stop":
            self._stop(f"no progress for {silence} (--max-silence)")
        else:
            self._notify(f"no progress for {silence}; {self._claim.job_id} is shown as stuck")

    def _stop(self, problem: str, *, is_failure: bool = True) -> None:
        """Stop it and everything it started. The first problem wins; a command that already ended was not stopped."""
        if self._problem is None and (is_failure or self._code is None):
            self._problem = problem
            self._is_stopped = self._is_stopped or not is_failure
            self._notify(f"stopping {self._claim.job_id}: {problem}", is_warning=is_failure)
        self._guardian.stop(self._policy.stop_grace)

    def _apply(self, update: m.Update) -> bool:
        """Whether nothing of the command is left."""
        match update:
            case m.Ready():
                pass
            case m.Started():
                self._group = update.pid
            case m.NotStarted():
                self._not_started, self._code = update.errno, NOT_EXECUTABLE
                return True
            case m.Paused():
                self._handle_pause(update.number)
            case m.LeaseOver():
                self._is_lost = True
            case m.Ended():
                self._handle_end(update.code)
            case m.Gone():
                return True
        return False

    # The lease

    def _lease_until(self, ends_at: float) -> Lease:
        return Lease(ends_at, self._claim.ttl, self._policy.stop_grace, own_lateness.worst(boottime()))

    def _update_lease(self, ends_at: float) -> None:
        with self._orders_lock:
            self._lease = self._lease_until(max(ends_at, self._lease.ends_at))
            if self._run_number is not None:
                self._guardian.renew(self._run_number, self._lease)

    def _kill_as_lost(self) -> None:
        """Kill it at once: the lease is lost, so the job may already have another owner."""
        with self._orders_lock:
            self._is_lost = self._has_killed = True
            if not self._is_over:
                self._guardian.kill()

    # Signals and the terminal

    def _forward_signal(self, number: int) -> None:
        self._is_stopped = self._is_stopped or number in TERMINATING_SIGNALS
        if self._code is None:
            self._guardian.send(number)
        elif number in TERMINATING_SIGNALS:
            self._guardian.stop(self._policy.stop_grace)  # the processes it left running

    def _handle_pause(self, number: int) -> None:
        if self._terminal is None or number == signal.SIGSTOP:
            return
        if number != signal.SIGTSTP and self._terminal.is_ours:
            # It wants the terminal, which so far belonged to the whole pipeline.
            self._terminal.give_to(self._group)
        else:
            self._suspend(self._terminal, number)
        self._guardian.send(signal.SIGCONT)

    def _suspend(self, terminal: Terminal, number: int) -> None:
        """Suspend ourselves too, as the shell's job control expects. `fg` continues here."""
        terminal.reclaim_from(self._group)
        self._notify(f"suspended; the lease lasts another {duration(self._claim.remaining())}")
        stop_own_group(number)
        if terminal.is_ours:
            terminal.give_to(self._group)

    def _handle_end(self, code: int) -> None:
        self._code = code
        if self._terminal is not None:
            self._terminal.reclaim_from(self._group)
        if code == -signal.SIGINT:
            self._is_stopped = True  # at a terminal, Ctrl-C reaches the command directly
        if self._policy.stop_leftovers or self._is_stopped or self._problem:
            self._guardian.stop(self._policy.stop_grace)

    def _report_leftovers(self) -> None:
        if self._code is None or self._has_reported_leftovers:
            return
        self._has_reported_leftovers = True
        count = len(descendants(self._guardian.pid))
        if count:
            running, until = ("of its processes is", "it ends") if count == 1 else ("of its processes are", "they end")
            self._notify(f"the command has ended, but {count} {running} still running; the job is held until {until}")
