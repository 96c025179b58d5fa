"""`octostore run`: one owner for the length of a command."""

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
from octostore.supervise.command import NOT_EXECUTABLE, Command, Ending, Terms
from octostore.supervise.dispositions import ENDING, Dispositions
from octostore.supervise.guardian import Guardian
from octostore.supervise.previous import previous_as_json
from octostore.supervise.report import FENCING_VARIABLE, JOB_VARIABLE, PREVIOUS_VARIABLE
from octostore.supervise.reports import Reports
from octostore.supervise.streams import fill_closed_streams, lead_to_one_place
from octostore.supervise.tail import Tail
from octostore.supervise.telling import Tell
from octostore.supervise.terminal import Terminal
from octostore.supervise.wakeups import TICK_SECONDS, SignalPipe

SECRET_VARIABLES = ("OCTOSTORE_TOKEN", "OCTOSTORE_LEASE_ID")
"""Not for the command: it reports over its socket, and for calls of its own there is OCTOSTORE_TOKEN_FILE."""
NOT_FOUND = 127
UNREACHABLE_PAUSE_SECONDS = 1.0
PATIENCE_SECONDS = 3.0
"""After this, people wonder what they are waiting for."""
LAST_CHANCE_SECONDS = 1.0
"""How long a signal waits for a claim that is just being ended."""

RunOutcome: TypeAlias = Literal["released", "done", "failed"]
T = TypeVar("T")


class Interrupted(Exception):
    """A signal came while we waited for the job."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class NoCommand(Exception):
    """There is no such program; `code` is what a shell would say."""

    def __init__(self, problem: str, code: int) -> None:
        super().__init__(problem)
        self.code = code


class RunOptions(msgspec.Struct, kw_only=True, frozen=True):
    """What `octostore run` was called with. Times in seconds."""

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
    terms: Terms
    stop_signal: int = signal.SIGTERM
    keep_stderr: bool = True


class Ran(msgspec.Struct, kw_only=True, frozen=True):
    """What became of it: the command's exit code, and how its claim ended (None where that could not be told)."""

    job_id: str
    exit_code: int
    outcome: RunOutcome | None
    is_lost: bool
    why: str | None
    """Where the command did not end by itself."""
    fencing_token: int
    attempt: int


def run(open_store: Callable[[], OctoStore], options: RunOptions, tell: Tell) -> Ran:
    """Raises `Held`, `AlreadyDone` or `Conflict` where the job cannot be had, and `NoCommand`, all before it starts.

    To be called from the main thread while there is no other: the guardian is forked first.
    """
    fill_closed_streams()
    check_command(options.command)
    dispositions = Dispositions()
    guardian = Guardian(options.command, stop_signal=options.stop_signal, dispositions=dispositions)
    terminal = Terminal()
    try:
        return _Run(guardian, dispositions, terminal, options, tell).run(open_store)
    finally:
        guardian.close()


def check_command(command: Sequence[str]) -> None:
    """Before anything is claimed for a command that cannot be run."""
    name = command[0]
    if shutil.which(name):
        return
    found = os.path.exists(name) if "/" in name else False  # noqa: PTH110  # a name that is no path is no file here
    if found:
        raise NoCommand(f"{name} cannot be executed; check its permissions", NOT_EXECUTABLE)
    raise NoCommand(f"command {name!r} not found; check its name and PATH", NOT_FOUND)


def command_environment(claim: HeldClaim, reports: Reports) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in SECRET_VARIABLES}
    return {
        **inherited,
        **reports.environment,
        JOB_VARIABLE: claim.job_id,
        FENCING_VARIABLE: str(claim.fencing_token),
        "OCTOSTORE_ATTEMPT": str(claim.attempt),
        PREVIOUS_VARIABLE: previous_as_json(claim.reply),
    }


class _Run:
    def __init__(
        self, guardian: Guardian, dispositions: Dispositions, terminal: Terminal, options: RunOptions, tell: Tell
    ) -> None:
        self._guardian = guardian
        self._dispositions = dispositions
        self._terminal = terminal
        self._options = options
        self._tell = tell
        self._request_id = new_request_id()
        self._owner = default_owner() if options.owner is None else options.owner
        self._has_asked = self._has_given_up = False

    def run(self, open_store: Callable[[], OctoStore]) -> Ran:
        with SignalPipe(self._dispositions.forwarded) as signals, ExitStack() as ending:
            at_end, held = ExitStack(), ExitStack()
            ending.callback(self._let_go, at_end, signals)
            claiming = signals.apart(lambda: self._get(open_store, at_end, held))
            try:
                signals.wait(claiming, _interrupt)
            except Interrupted:
                self._has_given_up = True
                signals.wait(signals.apart(lambda: self._give_back(open_store, at_end)), _interrupt)
                raise
            signals.add(signal.SIGTSTP)
            return self._own(claiming.result(), held, signals)

    def _let_go(self, at_end: ExitStack, signals: SignalPipe) -> None:
        """Of the store, which may still be trying to write. A signal says that nobody wants to wait for that."""
        with suppress(Interrupted):
            signals.wait(signals.apart(at_end.close), _interrupt)

    # The claim

    def _get(self, open_store: Callable[[], OctoStore], at_end: ExitStack, held: ExitStack) -> HeldClaim:
        store = self._patiently(open_store)
        at_end.callback(store.close)
        self._guardian.check_keepable(self._options.ttl)
        return self._patiently(lambda: self._claim(store, held))

    def _patiently(self, attempt: Callable[[], T]) -> T:
        has_told = False
        while True:
            try:
                return attempt()
            except Unreachable as fault:
                if self._options.on_unreachable == "fail" or self._has_given_up or fault.reason == "certificate":
                    raise
                self._has_asked = False
                if not has_told:
                    self._tell(f"{fault}; retrying until it can be reached")
                    has_told = True
                time.sleep(UNREACHABLE_PAUSE_SECONDS)

    def _claim(self, store: OctoStore, held: ExitStack) -> HeldClaim:
        """At once if it can be had; otherwise nobody should wonder why nothing happens."""
        try:
            return held.enter_context(self._hold(store, wait=0))
        except (Held, Conflict) as refusal:
            if not self._options.wait or getattr(refusal, "status", "held") not in {"held", "delayed"}:
                raise
            self._tell(f"{refusal}; waiting up to {duration(self._options.wait)}")
        except LeaseLost:
            # An earlier attempt got it, and no answer came before that ended: nobody has run anything.
            self._request_id = new_request_id()
        return held.enter_context(self._hold(store, wait=self._options.wait))

    def _hold(self, store: OctoStore, wait: float) -> AbstractContextManager[HeldClaim]:
        options = self._options
        self._has_asked = True
        if self._has_given_up:
            raise Unreachable("nobody waits for it any more", reason="closed")
        return store.hold(
            options.job_id,
            owner=self._owner,
            metadata=options.metadata,
            ttl=options.ttl,
            wait=wait,
            request_id=self._request_id,
            max_silence=options.max_silence,
        )

    def _give_back(self, open_store: Callable[[], OctoStore], at_end: ExitStack) -> None:
        """The claim may have been granted in the moment of the signal. Asked again, the store gives the same one.

        Another one is asked: ours must be closed first, so that it does not claim once more.
        """
        at_end.close()
        if not self._has_asked:
            return
        options = self._options
        with suppress(OctoStoreError), open_store() as store:
            reply = store.claim_job(
                options.job_id, self._owner, options.metadata, options.ttl, request_id=self._request_id
            )
            if reply.lease_id is not None:
                store.release_job(options.job_id, reply.lease_id, note="interrupted before the command started")

    # Owning the job

    def _own(self, claim: HeldClaim, held: ExitStack, signals: SignalPipe) -> Ran:
        claimed_at = boottime()
        ending: Ending | None = None
        outcome: RunOutcome | None = None
        try:
            with held:
                ending, said = self._execute(claim, signals)
                outcome = self._settle(claim, ending, said)
                if not ending.is_stopped:
                    self._keep_until(claimed_at + self._options.min_hold, claim, signals)
                self._end(held.pop_all(), claim, signals)
        except LeaseLost as lost:
            outcome = None
            ending = (ending or Ending(code=0))._replace(is_lost=True, problem=str(lost))
        except Unreachable as fault:
            outcome = None
            self._tell(f"the command has ended, but its claim could not be released ({fault}); it will expire")
        return self._ran(claim, ending or Ending(code=0), outcome)

    def _execute(self, claim: HeldClaim, signals: SignalPipe) -> tuple[Ending, bytes]:
        """How it ended, and the last that it said."""
        tail, streams = self._streams()
        command = Command(
            self._guardian, claim, self._options.terms, self._tell, signals=signals, terminal=self._terminal
        )
        with Reports(claim) as reports:
            command.start(command_environment(claim, reports), streams)
            if tail is not None:
                tail.close_writing()
            ending = command.wait()
        return ending, tail.result() if tail is not None else b""

    def _streams(self) -> tuple[Tail | None, tuple[int, int, int]]:
        """A terminal stays one. Anything else is copied, to have its end for the job's story."""
        if not self._options.keep_stderr or os.isatty(2):
            return None, (0, 1, 2)
        tail = Tail(2, ERROR_BYTES)
        # Where both lead to one place, they must go there together, or their lines would change order.
        stdout = tail.descriptor if lead_to_one_place(1, 2) else 1
        return tail, (0, stdout, tail.descriptor)

    def _settle(self, claim: HeldClaim, ending: Ending, said: bytes) -> RunOutcome | None:
        if ending.is_lost:
            claim.let_expire()
            return None
        outcome, note, error = self._verdict(ending, said)
        claim.end_as(outcome, note=note, error=error)
        return outcome

    def _verdict(self, ending: Ending, said: bytes) -> tuple[RunOutcome, str | None, str | None]:
        """The outcome, with a note or an error."""
        if ending.is_success:
            return ("done" if self._options.once else "released"), None, None
        if ending.is_stopped:
            return "released", f"the command was stopped: {ending}", None
        return "failed", None, error_text(ending, said)

    def _keep_until(self, moment: float, claim: HeldClaim, signals: SignalPipe) -> None:
        while (left := moment - boottime()) > 0 and not (claim.lost.is_set() or claim.stop_requested.is_set()):
            select.select([signals], [], [], min(left, TICK_SECONDS))
            if ENDING.intersection(signals.taken()):
                return

    def _end(self, held: ExitStack, claim: HeldClaim, signals: SignalPipe) -> None:
        """Tried for as long as the lease lasts, unless a signal says that nobody wants to wait for it."""
        ending = signals.apart(held.close)
        try:
            if not signals.wait(ending, _interrupt_if_ending, PATIENCE_SECONDS):
                left = claim.remaining()
                self._tell(f"the command has ended, but the store does not answer; trying for another {duration(left)}")
                signals.wait(ending, _interrupt_if_ending)
        except Interrupted as interrupted:
            if not wait([ending], LAST_CHANCE_SECONDS).done:
                raise Unreachable(f"{interrupted} came before the store answered", reason="network") from None
        ending.result()

    def _ran(self, claim: HeldClaim, ending: Ending, outcome: RunOutcome | None) -> Ran:
        return Ran(
            job_id=claim.job_id,
            exit_code=ending.code,
            outcome=outcome,
            is_lost=ending.is_lost or claim.lost.is_set(),
            why=ending.problem,
            fencing_token=claim.fencing_token,
            attempt=claim.attempt,
        )


def error_text(ending: Ending, said: bytes) -> str:
    """What the next owner, and whoever looks, should know: how it ended, and the last that it said."""
    first = f"{ending}\n" if said else str(ending)
    room = ERROR_BYTES - len(first.encode())
    last = said.decode("utf-8", "replace").strip().encode()[-room:].decode("utf-8", "ignore")
    return shorten(first + last, ERROR_BYTES).strip()


def _interrupt(number: int) -> None:
    raise Interrupted(number)


def _interrupt_if_ending(number: int) -> None:
    if number in ENDING:
        raise Interrupted(number)
