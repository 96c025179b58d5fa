"""One command under one claim, from its start until nothing of it is left."""

import os
import select
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias

from octostore.client.hold import HeldClaim
from octostore.client.lateness import here
from octostore.core.errors import LeaseLost, NotFound
from octostore.core.moments import duration
from octostore.stores.clock import boottime
from octostore.supervise import messages as m
from octostore.supervise.dispositions import ENDING
from octostore.supervise.guardian import Guardian, GuardianDied
from octostore.supervise.lease import Lease
from octostore.supervise.outage import Outage
from octostore.supervise.processes import descendants
from octostore.supervise.telling import Tell
from octostore.supervise.terminal import Terminal, stop_our_group
from octostore.supervise.wakeups import TICK_SECONDS, SignalPipe

SIGNALLED = 128
"""What shells add to the number of a signal to tell who died of one."""
NOT_EXECUTABLE = 126
TIMED_OUT = 124
"""What `timeout` says; for a command that we had to stop, and that said it had succeeded."""


OnSilence: TypeAlias = Literal["report", "stop"]


class Terms(NamedTuple):
    """How a command is treated. Times in seconds."""

    stop_grace: float
    max_run: float | None = None
    stop_rest: bool = False
    """Whether what the command has left running is stopped with it; otherwise it is waited for."""
    on_silence: OnSilence = "report"
    """What is done when it reports no progress for as long as the claim allows."""


class Ending(NamedTuple):
    """How a command ended. `code` is what a shell would say: 128 and the number of the signal it died of."""

    code: int
    problem: str | None = None
    """Why it did not end by itself, in words."""
    is_lost: bool = False
    is_stopped: bool = False
    """Whether it was told to, by a signal to us or by somebody who asked; that is no failure."""
    not_started: int | None = None
    """The error number, where it could not even be started."""

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


class Command:
    """`tell` is given what somebody at a terminal should know."""

    def __init__(
        self,
        guardian: Guardian,
        claim: HeldClaim,
        terms: Terms,
        tell: Tell,
        *,
        signals: SignalPipe | None = None,
        terminal: Terminal | None = None,
    ) -> None:
        self._guardian = guardian
        self._claim = claim
        self._terms = terms
        self._tell = tell
        self._outage = Outage(claim, tell)
        self._signals = signals
        self._terminal = terminal
        self._turn: int | None = None
        self._group = 0
        self._code: int | None = None
        self._problem: str | None = None
        self._is_gone = self._is_lost = self._has_killed = self._is_stopped = self._is_asked = self._has_told = False
        self._is_stuck = self._is_over = False
        self._not_started: int | None = None
        self._ends_at = float("inf") if terms.max_run is None else boottime() + terms.max_run
        self._lease = Lease(-float("inf"), 0, 0, 0)
        self._ordering = threading.Lock()
        """Held while another thread may order something, so that it is never about the guardian's next command."""

    def start(self, environment: Mapping[str, str], streams: tuple[int, int, int]) -> None:
        """`streams` may be closed after this."""
        self._lease = self._known(self._claim.watch(self._renewed, self._lose))
        in_foreground = self._terminal is not None and self._terminal.is_only_ours
        self._turn = self._guardian.start(environment, streams, self._lease, in_foreground=in_foreground)
        self._renewed(self._claim.watch(self._renewed, self._lose))  # it may have been renewed in between
        if self._claim.lost.is_set():
            self._lose()  # or lost, and what was ordered before the command had started is forgotten

    def wait(self) -> Ending:
        try:
            while not self._step():
                pass
        except GuardianDied:
            self._guardian.bury()
            self._code, self._problem = -signal.SIGKILL, "the process supervising the command was killed"
        finally:
            with self._ordering:
                self._is_over = True
            if self._terminal is not None:
                self._terminal.take_back_from(self._group)
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
        """Whether nothing is left."""
        kill_at = float("inf") if self._has_killed else self._lease.kill_at()
        left = max(0.0, min(TICK_SECONDS, min(self._ends_at, kill_at) - boottime()))
        sources = [self._guardian.fileno(), *([self._signals.fileno()] if self._signals else [])]
        select.select(sources, [], [], left)
        for number in self._signals.taken() if self._signals else ():
            self._pass_on(number)
        self._heed_request()
        self._heed_silence()
        news = self._guardian.news(0)
        if not news:
            self._mention_rest()
        for item in news:
            self._is_gone = self._take(item) or self._is_gone
        if not self._is_gone:
            self._keep_deadlines()
        return self._is_gone

    def _heed_request(self) -> None:
        """Somebody wants the owner to stop, and so what it has started."""
        if self._is_asked or not self._claim.stop_requested.is_set():
            return
        self._is_asked = True
        why = self._claim.stop_reason
        self._stop("asked to stop" + (f" ({why})" if why else ""), is_failure=False)

    def _keep_deadlines(self) -> None:
        if boottime() >= self._ends_at:
            self._ends_at = float("inf")
            self._stop(f"still running after {duration(self._terms.max_run or 0)} (--max-run)")
        self._outage.mention(self._lease.stop_at())
        if here.worst(boottime()) > self._lease.delay:
            self._renewed(self._lease.ends_at)  # the machine has become busier, which the guardian should know
        if boottime() >= self._lease.kill_at() and not self._has_killed:
            self._lose()  # the guardian does the same, unless somebody has paused it

    def _heed_silence(self) -> None:
        """What is alive is not moving."""
        was_stuck, self._is_stuck = self._is_stuck, self._claim.stuck
        if was_stuck or not self._is_stuck or self._problem is not None:
            return
        silence = duration(self._claim.reply.max_silence or 0)
        if self._terms.on_silence == "stop":
            self._stop(f"no progress for {silence} (--max-silence)")
        else:
            self._tell(f"no progress for {silence}; {self._claim.job_id} is shown as stuck")

    def _stop(self, problem: str, *, is_failure: bool = True) -> None:
        """End it, with what it has left running. The first reason counts; one that has ended did so by itself."""
        if self._problem is None and (is_failure or self._code is None):
            self._problem = problem
            self._is_stopped = self._is_stopped or not is_failure
            self._tell(f"stopping {self._claim.job_id}: {problem}")
        self._guardian.stop(self._terms.stop_grace)

    def _take(self, news: m.News) -> bool:
        match news:
            case m.Ready():
                pass
            case m.Started():
                self._group = news.pid
            case m.NotStarted():
                self._not_started, self._code = news.errno, NOT_EXECUTABLE
                return True
            case m.Paused():
                self._pause(news.number)
            case m.LeaseOver():
                self._is_lost = True
            case m.Ended():
                self._end(news.code)
            case m.Gone():
                return True
        return False

    # The lease

    def _known(self, ends_at: float) -> Lease:
        return Lease(ends_at, self._claim.ttl, self._terms.stop_grace, here.worst(boottime()))

    def _renewed(self, ends_at: float) -> None:
        with self._ordering:
            self._lease = self._known(max(ends_at, self._lease.ends_at))
            if self._turn is not None:
                self._guardian.renew(self._turn, self._lease)

    def _lose(self) -> None:
        """The store has said so, or it is too late: each further moment may be somebody else's already."""
        with self._ordering:
            self._is_lost = self._has_killed = True
            if not self._is_over:
                self._guardian.kill()

    # What others do to it

    def _pass_on(self, number: int) -> None:
        self._is_stopped = self._is_stopped or number in ENDING
        if self._code is None:
            self._guardian.send(number)
        elif number in ENDING:
            self._guardian.stop(self._terms.stop_grace)  # of what it has left running

    def _pause(self, number: int) -> None:
        if self._terminal is None or number == signal.SIGSTOP:
            return
        if number != signal.SIGTSTP and self._terminal.is_ours:
            # It wants to use the terminal, which so far was that of a pipeline.
            self._terminal.give_to(self._group)
        else:
            self._suspend(self._terminal, number)
        self._guardian.send(signal.SIGCONT)

    def _suspend(self, terminal: Terminal, number: int) -> None:
        """As the shell that started us expects when it stops a job. `fg` goes on after this."""
        terminal.take_back_from(self._group)
        self._tell(f"suspended; the lease lasts another {duration(self._claim.remaining())}")
        stop_our_group(number)
        if terminal.is_ours:
            terminal.give_to(self._group)

    def _end(self, code: int) -> None:
        self._code = code
        if self._terminal is not None:
            self._terminal.take_back_from(self._group)
        if code == -signal.SIGINT:
            self._is_stopped = True  # Ctrl-C at the terminal goes to the command without us
        if self._terms.stop_rest or self._is_stopped or self._problem:
            self._guardian.stop(self._terms.stop_grace)

    def _mention_rest(self) -> None:
        """Nobody should wonder why nothing happens."""
        if self._code is None or self._has_told:
            return
        self._has_told = True
        rest = len(descendants(self._guardian.pid))
        if rest:
            running = f"{rest} of its processes are still running"
            self._tell(f"the command has ended, but {running}; the job is held until they end")
