"""`hold()`: own a job for the length of a block. It heartbeats by itself, and says so if ownership is lost."""

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from octostore.client.authority import Authority
from octostore.client.calls import build
from octostore.client.claiming import HoldCall, claim, with_new_request_id
from octostore.client.heartbeater import RETRY_SECONDS, Heartbeater
from octostore.client.lateness import check_ttl_is_safe_here
from octostore.client.methods import Blocking, thread_method
from octostore.client.port import Port
from octostore.core.beats import BEATS_PER_TTL
from octostore.core.commands import Command, HeartbeatJob, KeepSessionAlive, R_co
from octostore.core.encoding import shorten
from octostore.core.errors import (
    AlreadyDone,
    Conflict,
    Held,
    InvalidInput,
    LeaseLost,
    NotFound,
    OctoStoreError,
    Unreachable,
)
from octostore.core.limits import ERROR_BYTES
from octostore.core.model import Outcome
from octostore.core.queue_words import obstacle_in_words, queue_in_words
from octostore.core.replies import (
    AttemptView,
    CheckpointReply,
    ClaimReply,
    HandedOverReply,
    HeartbeatReply,
    KeepaliveReply,
    ReleaseReply,
)
from octostore.core.undo import release_claim
from octostore.stores.clock import boottime
from octostore.stores.owners import owners
from octostore.stores.pausing import jittered

if TYPE_CHECKING:
    from octostore.client.spans import WorkSpan
    from octostore.stores.loop_flag import LoopFlag

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])

BLOCK_ENDED = "its block has ended"
BLOCK_NOT_ENTERED = "its block could not be entered"
IF_NOT_KEPT = "nothing keeps the claim alive"
NOT_RENEWED = "it could not be renewed in time, so someone else may have the job by now"


def describe(error: BaseException) -> str:
    """The text that is recorded with the job."""
    try:
        text = f"{type(error).__name__}: {error}".strip(": ")
    except Exception:  # noqa: BLE001  # an error that cannot be shown is still an error
        text = type(error).__name__
    return shorten(text, ERROR_BYTES)


def refusal(reply: ClaimReply) -> OctoStoreError:
    """The exception for a reply that is not `claimed`."""
    if reply.status == "empty":
        nothing = "nothing can be claimed now" if reply.queue_status is None else queue_in_words(reply.queue_status)
        return Conflict(nothing, status="empty")
    job_id = reply.job_id or ""
    if reply.status == "held" and reply.owner and reply.claimed_at and reply.heartbeat_at and reply.expires_at:
        return Held(
            f"job {job_id!r}",
            owner=reply.owner,
            claimed_at=reply.claimed_at,
            heartbeat_at=reply.heartbeat_at,
            expires_at=reply.expires_at,
            metadata=reply.metadata,
            progress=reply.progress,
        )
    if reply.status == "done":
        return AlreadyDone(job_id, reply.result)
    if reply.status == "dead":
        return Conflict(
            f"job {job_id!r} is dead ({reply.error or 'out of attempts or cancelled'}); requeue it to run it again",
            status="dead",
        )
    if (obstacle := obstacle_in_words(reply)) is not None:
        return Conflict(f"job {job_id!r} cannot be claimed now: {obstacle}", status=reply.status)
    when = f"before {reply.available_at:%Y-%m-%d %H:%M:%S} UTC" if reply.available_at else "now"
    return Conflict(f"job {job_id!r} cannot be claimed {when}", status=reply.status)


class Granted(NamedTuple):
    """A reply to a claim, and how long it is good for: `remaining_ms` from `asked_at`."""

    reply: ClaimReply
    asked_at: float
    remaining_ms: int


def granted(reply: ClaimReply, asked_at: float) -> Granted:
    return Granted(reply, asked_at, reply.remaining_ms or 0)


def refresh_command(granted: Granted) -> Command[Any] | None:
    """The heartbeat that a claim needs first if it was waited for, because it counts from before the wait."""
    reply, asked_at, remaining_ms = granted
    if reply.lease_id is None or boottime() - asked_at < remaining_ms / 4_000:
        return None
    return heartbeat_for(reply, reply.lease_id)


def heartbeat_for(reply: ClaimReply, lease_id: str) -> Command[Any]:
    """A claim that came with its session lives by the session's heartbeats."""
    if reply.session is not None:
        return KeepSessionAlive(session_id=reply.session.session_id, lease_id=lease_id)
    return HeartbeatJob(job_id=reply.job_id or "", lease_id=lease_id, fencing_token=reply.fencing_token)


def claim_to_hold(port: Port, command: Command[ClaimReply], wait: float, is_generated: bool) -> Granted:
    asked_at = boottime()
    return refresh_own(port, granted(claim(port, command, wait, is_generated), asked_at))


def refresh_own(port: Port, granted: Granted) -> Granted:
    """For a claim that nobody knows of yet."""
    with releasing_if_interrupted(port, granted.reply):
        return refresh_if_old(port, granted)


@contextmanager
def releasing_if_interrupted(port: Port, reply: ClaimReply) -> Iterator[None]:
    """Release the claim after Ctrl-C or in a cancelled task, when no block is entered that would end it."""
    try:
        yield
    except OctoStoreError:
        raise
    except BaseException:
        with suppress(OctoStoreError):
            port.submit(release_claim(reply, BLOCK_NOT_ENTERED))
        raise


def refresh_if_old(port: Port, granted: Granted) -> Granted:
    refresh = refresh_command(granted)
    if refresh is None:
        return granted
    asked_at = boottime()
    return Granted(granted.reply, asked_at, port.execute(refresh).remaining_ms)


class BlockBase(Generic[C]):
    """A claim for the length of one `with` block. Nothing is claimed before the block is entered."""

    _STATEMENT = "a `with` statement"

    def __init__(self, call: str, open_claim: Callable[[], C], if_unused: str = "nothing was claimed") -> None:
        self._call = call
        self._open_claim = open_claim
        self._if_unused = if_unused
        self._is_used = False

    def _use(self) -> None:
        if self._is_used:
            raise InvalidInput(
                "block", f"of {self._call} has already been entered; for another, call {self._call} again"
            )
        self._is_used = True

    def _recreate_cm(self) -> Self:
        """For each call of a decorated function."""
        return type(self)(self._call, self._open_claim)

    def __del__(self) -> None:
        if not getattr(self, "_is_used", True):
            warnings.warn(
                f"{self._call} was never entered, so {self._if_unused}; use it in {self._STATEMENT}",
                RuntimeWarning,
                stacklevel=2,
            )


class Block(BlockBase["HeldClaim"], AbstractContextManager["HeldClaim"], ContextDecorator):
    """What `hold()` and `keep()` return."""

    def __call__(self, function: F) -> F:
        self._is_used = True
        _check_runs_when_called(function, self._call)
        return super().__call__(function)

    def __enter__(self) -> "HeldClaim":
        self._use()
        self._claim = self._open_claim()
        return self._claim.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._claim.__exit__(kind, error, traceback)


def _check_runs_when_called(function: Callable[..., Any], call: str) -> None:
    from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction  # noqa: PLC0415  # slow to import

    if any(runs_later(function) for runs_later in (iscoroutinefunction, isasyncgenfunction, isgeneratorfunction)):
        name = getattr(function, "__name__", "the function")
        raise InvalidInput(
            "function", f"cannot be decorated: {call} would end before {name} runs; use {call} inside {name}"
        )


def renewed(call: HoldCall) -> HoldCall:
    """For another block: a generated request id is good for one claim."""
    if not call.claim.is_generated:
        return call
    return call._replace(claim=call.claim._replace(command=with_new_request_id(call.claim.command)))


def hold_block(port: Port, call: HoldCall) -> Block:
    def open_claim() -> HeldClaim:
        request, ttl, outcome, on_lost = renewed(call)
        check_ttl_is_safe_here(ttl)
        claim = HeldClaim(port, claim_to_hold(port, *request), on_lost=on_lost)
        claim.end_as(outcome)
        return claim

    return Block(hold_text(call), open_claim)


def hold_text(call: HoldCall) -> str:
    return f"hold({getattr(call.claim.command, 'job_id', '')!r})"


def keep_block(port: Port, reply: ClaimReply, asked_at: float, on_lost: Callable[[], None] | None) -> Block:
    def open_claim() -> HeldClaim:
        return HeldClaim(port, refresh_if_old(port, granted(reply, asked_at)), on_lost=on_lost)

    return Block("keep()", open_claim, IF_NOT_KEPT)


class KeptClaim:
    """A claim that another thread keeps alive while its block runs: `HeldClaim` and `AsyncHeldClaim`."""

    job_id: str
    """The job's name."""
    lease_id: str
    """The secret that authorises writes under this claim."""
    fencing_token: int
    """Send it along when you write to other systems: a paused process cannot know in time that it lost its lease."""
    ttl: float
    """Seconds until the claim expires if heartbeats stop."""
    attempt: int
    """Which attempt this is, from 1."""
    stop_reason: str | None
    """Why you should stop, once `stop_requested` is set."""
    reply: ClaimReply
    """The reply to the claim."""

    def __init__(
        self,
        port: Port,
        granted: "Granted",
        lost: "threading.Event | LoopFlag",
        stop: "threading.Event | LoopFlag",
        *,
        on_lost: Callable[[], None] | None = None,
        claim_next: Callable[[], Command[ClaimReply] | None] = lambda: None,
    ) -> None:
        """Raises the exception that says why, if the job was not claimed.

        The claim that `claim_next` returns when the block ends is made in the same transaction: see `following`.
        """
        reply = granted.reply
        if reply.status != "claimed" or reply.lease_id is None or reply.remaining_ms is None:
            raise refusal(reply)
        self.reply = reply
        self.job_id = reply.job_id or ""
        self.lease_id = reply.lease_id
        self.fencing_token = reply.fencing_token or 0
        self.ttl = reply.ttl or 0.0
        self.attempt = reply.attempt or 1
        self._lost = lost
        self._stop = stop
        self.stop_reason = None
        self._port = port
        self._authority = Authority()
        self._authority.renew(granted.asked_at, granted.remaining_ms)
        self._on_lost = on_lost
        self.following: Granted | None = None
        """The claim that `claim_next` made, if it succeeded. For worker loops."""
        self._end_asked_at = 0.0
        self._claim_next = claim_next
        self._loss: LeaseLost | NotFound | None = None
        self._ending: Command[ReleaseReply] | None = None
        """How to settle the claim. None releases it."""
        self._lets_expire = False
        self.failure: BaseException | None = None
        """What the handler raised, if that was caught and is the job's outcome. For worker loops."""
        self._span: WorkSpan | None = None
        self._is_stuck = False
        # A heartbeat notices silence, so send them at least as often as silence can begin.
        pace = self.ttl if reply.max_silence is None else min(self.ttl, reply.max_silence * BEATS_PER_TTL)
        self._heartbeater = Heartbeater(self._beat, self._authority, pace, self._lose, self.take_reply)
        self._pid = os.getpid()
        self._has_ended = False
        self._is_handed_over = False

    @property
    def kind(self) -> str | None:
        """The job's kind, if it was enqueued."""
        return self.reply.kind

    @property
    def payload(self) -> Any:
        """The job's payload, if it has one."""
        return self.reply.payload

    @property
    def last_checkpoint(self) -> Any:
        """What the last owner saved with `checkpoint`, if any."""
        return self.reply.checkpoint

    @property
    def previous(self) -> list[AttemptView]:
        """How earlier attempts ended, newest first."""
        return self.reply.previous

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context to pass on: that of the block's span, or else of the attempt, or else of the job."""
        own = None if self._span is None else self._span.traceparent
        return own or self.reply.attempt_traceparent or self.reply.traceparent

    @property
    def is_to_stop(self) -> bool:
        """Whether `stop_requested` is set. Safe to read from any thread."""
        return self._stop.is_set()

    @property
    def heartbeat_fault(self) -> BaseException | None:
        """Why the last heartbeat got no reply; None while heartbeats get through."""
        return self._heartbeater.fault

    @property
    def stuck(self) -> bool:
        """Whether, at the last heartbeat, you had reported no progress for `max_silence` seconds."""
        return self._is_stuck

    def remaining(self) -> float:
        """Return how long the job is certain to stay yours if no more heartbeats get through.

        Returns:
            Seconds, or 0 once the lease is lost.

        Example:
            >>> with store.hold("deploy", ttl=120) as claim:
            ...     110 < claim.remaining() <= 120
            True
        """
        return 0.0 if self._has_ended else self._time_left()

    def _time_left(self) -> float:
        """Also while the claim is being settled, for how long to retry that."""
        return 0.0 if self._lost.is_set() else self._authority.remaining()

    def check(self) -> None:
        """Check that the job is still yours. Call this before anything you cannot undo.

        Raises:
            LeaseLost: The job may be someone else's by now.

        Example:
            >>> with store.hold("deploy") as claim:
            ...     claim.check()
        """
        if self.remaining() <= 0:
            raise self._loss or LeaseLost(self.job_id, BLOCK_ENDED if self._has_ended else NOT_RENEWED)

    def end_as(
        self,
        outcome: Outcome,
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Choose how to settle the job when the block ends without an exception.

        Args:
            outcome: See `OctoStore.release_job` for this and the other arguments.
            result: Any JSON value up to 64 KiB, only with `done`.
            error: What went wrong, only with `failed`.
            note: A note for the next owner.
            retry_after: Seconds until the job can be claimed again.

        Raises:
            InvalidInput: An argument is out of bounds.

        Example:
            >>> with store.hold("deploy") as claim:
            ...     claim.end_as("done", result={"version": 7})
            >>> store.get_job("deploy").status
            'done'
        """
        self._lets_expire = False
        self._ending = self._release(outcome, result=result, error=error, note=note, retry_after=retry_after)

    def let_expire(self) -> None:
        """Do not settle the job when the block ends: it stays claimed until the lease expires.

        Example:
            >>> with store.hold("deploy") as claim:
            ...     claim.let_expire()
            >>> store.get_job("deploy").status
            'claimed'
        """
        self._lets_expire = True

    @thread_method
    def progress(self, note: str | None = None, *, percent: float | None = None) -> None:
        """Report what you are doing, for people to see. This is also a heartbeat.

        Args:
            note: What you are doing, up to 1,024 bytes.
            percent: How far along you are, 0 to 100.

        Raises:
            LeaseLost: The job is no longer yours.

        Example:
            >>> with store.hold("import") as claim:
            ...     claim.progress("reading page 3", percent=40)
            ...     store.get_job_owner("import").progress.note
            'reading page 3'
        """
        self.check()
        asked_at = self._authority.now()
        command = HeartbeatJob(
            job_id=self.job_id,
            lease_id=self.lease_id,
            fencing_token=self.reply.fencing_token,
            note=note,
            percent=percent,
        )
        reply = self._execute_retrying(command)
        self._authority.renew(asked_at, reply.remaining_ms)
        self.take_reply(reply)

    @thread_method
    def checkpoint(self, data: Any) -> None:
        """Save state that the next owner finds in `last_checkpoint`.

        Args:
            data: Any JSON value up to 64 KiB. It replaces the last checkpoint.

        Raises:
            LeaseLost: The job is no longer yours.

        Example:
            >>> with store.hold("import") as claim:
            ...     claim.checkpoint({"page": 3})
            >>> with store.hold("import") as claim:
            ...     claim.last_checkpoint
            {'page': 3}
        """
        self.check()
        command = build.checkpoint_job(self.job_id, self.lease_id, data, fencing_token=self.reply.fencing_token)
        self.take_reply(self._execute_retrying(command))

    @thread_method
    def hand_over(self, to_agent: str, note: str | None = None) -> HandedOverReply:
        """Pass the task and its session on to another agent. The block then ends without settling the task.

        Args:
            to_agent: The agent that may open the session.
            note: A note for that agent.

        Returns:
            The deadline for opening the session (`expires_at`).

        Raises:
            InvalidInput: The claim did not open a session, as `claim_task` does.
            LeaseLost: The task is no longer yours.

        Example:
            >>> _ = store.enqueue("review", job_id="review-12")
            >>> with store.keep(store.claim_task("main", "agent-3")) as claim:
            ...     claim.hand_over("agent-4", "needs a second opinion").agent
            'agent-4'
        """
        session = self.reply.session
        if session is None:
            raise InvalidInput(
                "claim", "did not open a session; `Session.hand_over` passes on a session with its claims"
            )
        self.check()
        reply = self._execute_retrying(build.hand_over(session.session_id, to_agent, note, lease_id=self.lease_id))
        self._stop_heartbeats()
        self._is_handed_over = True
        self._loss = LeaseLost(self.job_id, f"it was handed over to {to_agent!r}")
        self._authority.end()
        return reply

    def watch(self, on_renewed: Callable[[float], None], on_lost: Callable[[], None]) -> float:
        """Set callbacks for when the lease is renewed or lost. They replace earlier ones, and run in other threads.

        Args:
            on_renewed: Called with the new end of the lease, on the same clock as the return value.
            on_lost: Called when the lease is lost.

        Returns:
            The time until which the job is certainly yours, by `CLOCK_BOOTTIME`.

        Example:
            >>> with store.hold("deploy") as claim:
            ...     ends_at = claim.watch(lambda ends_at: None, lambda: None)
        """
        self._authority.on_renewed = on_renewed
        self._on_lost = on_lost
        return self._authority.ends_at

    def take_reply(self, reply: HeartbeatReply | KeepaliveReply | CheckpointReply) -> None:
        """Set `stop_requested` and `stuck` from a reply. For code that sends its own writes under this lease.

        Args:
            reply: The reply to a heartbeat or a checkpoint of this claim.

        Example:
            >>> with store.hold("deploy") as claim:
            ...     claim.take_reply(store.heartbeat_job("deploy", claim.lease_id))
        """
        if isinstance(reply, CheckpointReply):
            self._is_stuck = False
            return
        stops = reply.stop_requested
        stop = stops.get(self.job_id) if isinstance(stops, dict) else stops
        if stop is not None:
            self.ask_to_stop(stop.reason)
        self._is_stuck = reply.stuck if isinstance(reply, HeartbeatReply) else self.job_id in reply.stuck_jobs

    def ask_to_stop(self, reason: str | None) -> None:
        """Set `stop_requested`, as an operator's request does.

        Args:
            reason: Becomes `stop_reason`.

        Example:
            >>> with store.hold("deploy") as claim:
            ...     claim.ask_to_stop("the machine is going down")
            ...     claim.stop_requested.is_set(), claim.stop_reason
            (True, 'the machine is going down')
        """
        if not self._stop.is_set():
            self.stop_reason = reason
            self._stop.set()

    def give_up(self, note: str, outcome: Outcome = "released") -> None:
        """Settle the job while its block is still running. The block then sees the lease as lost.

        Args:
            note: The reason. With `failed`, it becomes the job's error.
            outcome: `released` uses no attempt; `failed` uses one.

        Raises:
            LeaseLost: The job was no longer yours.

        Example:
            >>> claim = store.hold("deploy").__enter__()
            >>> claim.give_up("the worker is stopping")
            >>> claim.lost.is_set()
            True
        """
        self._loss = LeaseLost(self.job_id, note)
        self._stop_heartbeats()
        self._authority.end()
        self._lost.set()
        self._port.execute(self._release(outcome, **{"error" if outcome == "failed" else "note": note}))
        if self._span is not None:
            self._span.end(outcome, outcome if outcome == "failed" else None)

    def _enter(self) -> None:
        self._start_heartbeats()
        if self._port.spans is not None:
            self._span = self._port.spans.start_work(self.reply)

    def _end_commands(self, error: BaseException | None) -> list[Command[Any]]:
        """The commands to execute now that the block ends; pass the replies to `_finish`."""
        # The store may have released the job long before its reply arrives.
        self._has_ended = True
        if self._span is not None:
            self._span.leave()
        if os.getpid() != self._pid or self._is_handed_over:
            return []  # a forked child leaves the block, too; the claim is its parent's, or another agent's
        self._stop_heartbeats()
        self._end_asked_at = self._authority.now()
        if error is not None:
            # A stop from outside (Ctrl-C, exit, a cancelled task) does not mean that the work failed.
            outcome: Outcome = "failed" if isinstance(error, Exception) else "released"
            return [self._release(outcome, error=describe(error))]
        if self._lets_expire:
            return []
        ending, following = self._ending or self._release("released"), self._claim_next()
        return [ending] if following is None else [ending, following]

    def _finish(self, commands: list[Command[Any]], replies: list[Any], error: BaseException | None) -> None:
        """Raise why the claim could not be settled. After `Unreachable` it retries, so it may block."""
        try:
            # What the block raised matters more than a failed release, after which the lease expires.
            with nullcontext() if error is None else suppress(OctoStoreError):
                if commands:
                    self._settle(commands[0], *replies)
        except Exception as fault:
            error = fault
            raise
        finally:
            self._authority.end()
            if self._span is not None and os.getpid() == self._pid:
                self._end_span(self._span, getattr(commands[0], "outcome", None) if commands else None, error)

    def _end_span(self, span: "WorkSpan", outcome: Outcome | None, error: BaseException | None) -> None:
        failure: BaseException | str | None = self.failure
        if self._lost.is_set():
            failure = self._loss or LeaseLost(self.job_id, NOT_RENEWED)
        elif isinstance(error, Exception):
            failure = error
        elif failure is None and outcome == "failed":
            failure = outcome
        span.end(outcome, failure)

    def _start_heartbeats(self) -> None:
        self._heartbeater.start()
        owners.add(self.job_id, self._heartbeater.beat_now)

    def _stop_heartbeats(self) -> None:
        self._heartbeater.stop()  # first: Ctrl-C may arrive in between
        owners.remove(self.job_id, self._heartbeater.beat_now)

    def _beat(self) -> Any:
        return self._port.submit(heartbeat_for(self.reply, self.lease_id))

    def _release(self, outcome: Outcome, **ending: Any) -> Command[ReleaseReply]:
        ending["fencing_token"] = self.reply.fencing_token
        if self.reply.session is not None:
            session_id = self.reply.session.session_id
            return build.release_task(session_id, self.job_id, self.lease_id, outcome, **ending)
        return build.release_job(self.job_id, self.lease_id, outcome, **ending)

    def _notice_loss(self, why: LeaseLost | NotFound) -> None:
        """The store may say so before a heartbeat does."""
        self._loss = why
        self._lost.set()
        self._heartbeater.lose(why)

    def _lose(self, why: LeaseLost | NotFound | None) -> None:
        self._loss = why
        self._lost.set()
        if self._on_lost is not None:
            self._on_lost()

    def _settle(self, ending: Command[Any], ended: object, following: object = None) -> None:
        if isinstance(following, ClaimReply) and following.status == "claimed":
            self.following = granted(following, self._end_asked_at)
        if not isinstance(ended, Unreachable):
            if isinstance(ended, OctoStoreError):
                raise ended
            return
        try:
            # Retried even if the lease counts as lost here: the store knows better, and refuses if it is.
            self._execute_retrying(ending)
        except Unreachable as fault:
            if self._lost.is_set():
                raise LeaseLost(self.job_id, NOT_RENEWED) from fault
            raise

    def _execute_retrying(self, command: Command[R_co]) -> R_co:
        """Retry after a fault, but no longer than the job is ours."""
        while True:
            try:
                return self._port.execute(command)
            except (LeaseLost, NotFound) as lost:
                self._notice_loss(lost)
                raise
            except Unreachable as fault:
                if fault.is_lasting or fault.reason == "closed" or self._time_left() <= RETRY_SECONDS:
                    raise
                time.sleep(jittered(RETRY_SECONDS))


class HeldClaim(Blocking, KeptClaim):
    """Your claim in a `with store.hold(...)` block. Another thread keeps it alive.

    The event `lost` is set when the lease is lost. If heartbeats stop getting through, it is set before anyone else can
    claim the job. The event `stop_requested` is set if someone wants you to stop, and `stop_reason` says why. The job
    stays yours until you do.

    Example:
        >>> with store.hold("import") as claim:
        ...     for page in range(3):
        ...         if claim.stop_requested.is_set():
        ...             break
        ...         claim.progress(f"page {page}")
        ...     claim.end_as("done")
    """

    lost: threading.Event
    stop_requested: threading.Event

    def __init__(self, port: Port, granted: "Granted", **options: Any) -> None:
        self.lost = threading.Event()
        self.stop_requested = threading.Event()
        super().__init__(port, granted, self.lost, self.stop_requested, **options)

    def __enter__(self) -> Self:
        try:
            self._enter()
        except BaseException:  # Ctrl-C, for one: no `__exit__` follows, and heartbeats would keep the job forever
            with suppress(OctoStoreError):
                self.give_up(BLOCK_NOT_ENTERED)
            raise
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        commands = self._end_commands(error)
        self._finish(commands, self._port.execute_all(commands), error)
