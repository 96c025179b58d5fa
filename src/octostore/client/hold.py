"""`hold()`: own a job for the length of a block. It heartbeats by itself, and says so when ownership is lost."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from octostore.client.authority import Authority
from octostore.client.calls import build
from octostore.client.claiming import claim
from octostore.client.heartbeater import RETRY_SECONDS, Heartbeater
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
from octostore.core.queue_words import pause_in_words
from octostore.core.replies import (
    AttemptView,
    CheckpointReply,
    ClaimReply,
    HandedOverReply,
    HeartbeatReply,
    KeepaliveReply,
    ReleaseReply,
)
from octostore.stores.clock import boottime
from octostore.stores.owners import owners
from octostore.stores.pausing import jittered

if TYPE_CHECKING:
    from octostore.client.spans import WorkSpan
    from octostore.stores.loop_flag import LoopFlag

ENDED = "its block has ended"
NOT_IN_TIME = "it could not be renewed in time, so it may be somebody else's by now"


def describe(error: BaseException) -> str:
    """An exception as the text that is noted on the job."""
    try:
        text = f"{type(error).__name__}: {error}".strip(": ")
    except Exception:  # noqa: BLE001  # an error that cannot be shown is still an error
        text = type(error).__name__
    return shorten(text, ERROR_BYTES)


def refusal(reply: ClaimReply) -> OctoStoreError:
    """The exception that says what `reply`, which is no claim, says."""
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
            f"job {job_id!r} is dead ({reply.error or 'cancelled'}); requeue it to run it again", status="dead"
        )
    if reply.pause is not None:
        paused = f"its queue {reply.queue} is {pause_in_words(reply.pause)}"
        return Conflict(f"job {job_id!r} cannot be claimed now: {paused}", status=reply.status)
    when = f"{reply.available_at:%Y-%m-%d %H:%M:%S} UTC" if reply.available_at else "later"
    return Conflict(f"job {job_id!r} cannot be claimed before {when}", status=reply.status)


LONG_AGO = float("-inf")


class Granted(NamedTuple):
    """The answer to a claim that is to be held, and what it is worth: `remaining_ms` counted from `asked_at`."""

    reply: ClaimReply
    asked_at: float
    remaining_ms: int


def granted(reply: ClaimReply, asked_at: float) -> Granted:
    return Granted(reply, asked_at, reply.remaining_ms or 0)


def refresh_command(granted: Granted) -> Command[Any] | None:
    """The heartbeat that a claim needs first if it was waited for, because it is counted from before the wait."""
    reply, asked_at, remaining_ms = granted
    if reply.lease_id is None or boottime() - asked_at < remaining_ms / 4_000:
        return None
    return heartbeat_of(reply, reply.lease_id)


def heartbeat_of(reply: ClaimReply, lease_id: str) -> Command[Any]:
    """What keeps the claim alive; one that came with its session lives with that."""
    if reply.session is not None:
        return KeepSessionAlive(session_id=reply.session.session_id, lease_id=lease_id)
    return HeartbeatJob(job_id=reply.job_id or "", lease_id=lease_id, fencing_token=reply.fencing_token)


def claim_to_hold(port: Port, command: Command[ClaimReply], wait: float, is_generated: bool) -> Granted:
    """Claim, in order to hold."""
    asked_at = boottime()
    return refresh_if_old(port, granted(claim(port, command, wait, is_generated), asked_at))


def refresh_if_old(port: Port, answer: Granted) -> Granted:
    refresh = refresh_command(answer)
    if refresh is None:
        return answer
    asked_at = boottime()
    return Granted(answer.reply, asked_at, port.execute(refresh).remaining_ms)


class KeptClaim:
    """A claim that is kept alive from another thread for as long as the block runs: `HeldClaim` and `AsyncHeldClaim`.

    `lost` is set, and `on_lost` called, before the store can give the job to anybody else. What the block does to other
    systems should carry `fencing_token`, because a process that was paused cannot know in time. `stop_requested` is set
    when somebody wants the block to stop, for `stop_reason`; the job stays ours until it does.
    """

    def __init__(
        self,
        port: Port,
        granted: "Granted",
        lost: "threading.Event | LoopFlag",
        stop: "threading.Event | LoopFlag",
        *,
        on_lost: Callable[[], None] | None = None,
        then: Callable[[], Command[ClaimReply] | None] = lambda: None,
    ) -> None:
        """Raises the exception that says why, if what was asked for was not granted.

        What `then` gives when the block ends without an exception is claimed in the same transaction: see `following`.
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
        self.stop_reason: str | None = None
        self._port = port
        self._authority = Authority()
        self._authority.renew(granted.asked_at, granted.remaining_ms)
        self._on_lost = on_lost
        self.following: Granted | None = None
        """The claim that was asked for together with the end of this one, if it was granted."""
        self._left_at = 0.0
        self._then = then
        self._loss: LeaseLost | NotFound | None = None
        self._ending: Command[ReleaseReply] | None = None
        """Where nothing was chosen, it is released."""
        self._is_to_expire = False
        self.failure: Exception | None = None
        """What the block raised, if that was caught and is its outcome."""
        self._span: WorkSpan | None = None
        self._is_stuck = False
        # That it is silent is noticed by a heartbeat, so one comes at least as often as that may happen.
        pace = self.ttl if reply.max_silence is None else min(self.ttl, reply.max_silence * BEATS_PER_TTL)
        self._heart = Heartbeater(self._beat, self._authority, pace, self._lose, self.take_reply)
        self._pid = os.getpid()
        self._has_ended = False
        self._is_handed_over = False

    @property
    def payload(self) -> Any:
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
        """The W3C trace context to pass on: that of the block's own span, else that of the attempt or the job."""
        own = None if self._span is None else self._span.traceparent
        return own or self.reply.attempt_traceparent or self.reply.traceparent

    @property
    def is_to_stop(self) -> bool:
        """Whether `stop_requested` is set, here and now; for threads that are not those of its loop."""
        return self._stop.is_set()

    def remaining(self) -> float:
        """For how many seconds the job is surely ours if no heartbeat gets through any more."""
        return 0.0 if self._lost.is_set() else self._authority.remaining()

    @property
    def heartbeat_fault(self) -> BaseException | None:
        """Why the last heartbeat did not get through; None while they do."""
        return self._heart.fault

    def check(self) -> None:
        """Raise `LeaseLost` unless the job is surely ours. To be called before anything that cannot be undone."""
        if self.remaining() <= 0:
            raise self._loss or LeaseLost(self.job_id, ENDED if self._has_ended else NOT_IN_TIME)

    def end_as(
        self,
        outcome: Outcome,
        *,
        result: Any = None,
        error: str | None = None,
        note: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Choose how the claim ends when the block does without an exception."""
        self._is_to_expire = False
        self._ending = self._release(outcome, result=result, error=error, note=note, retry_after=retry_after)

    def let_expire(self) -> None:
        """Do not release the job when the block ends, for what can no longer be done in time."""
        self._is_to_expire = True

    @property
    def stuck(self) -> bool:
        """Whether nothing was reported for `max_silence` seconds, as of the last heartbeat."""
        return self._is_stuck

    def watch(self, on_renewed: Callable[[float], None], on_lost: Callable[[], None]) -> float:
        """For those who must know without asking: until when the job is surely ours, on the clock of `boottime`.

        `on_renewed` is told each time that this becomes later, and `on_lost` when it has come; both are called from
        other threads, and take the place of what was given before.
        """
        self._authority.on_renewed = on_renewed
        self._on_lost = on_lost
        return self._authority.ends_at

    def take_reply(self, reply: HeartbeatReply | KeepaliveReply | CheckpointReply) -> None:
        """For those who write besides: what the answer has to say, other than that the lease goes on."""
        if isinstance(reply, CheckpointReply):
            self._is_stuck = False
            return
        stops = reply.stop_requested
        stop = stops.get(self.job_id) if isinstance(stops, dict) else stops
        if stop is not None:
            self.ask_to_stop(stop.reason)
        self._is_stuck = reply.stuck if isinstance(reply, HeartbeatReply) else self.job_id in reply.stuck_jobs

    def ask_to_stop(self, reason: str | None) -> None:
        """Set `stop_requested`, as somebody's request does."""
        if not self._stop.is_set():
            self.stop_reason = reason
            self._stop.set()

    def give_up(self, note: str) -> None:
        """Release the job although its block still runs, for which it is lost from then on. It is no attempt."""
        self._loss = LeaseLost(self.job_id, note)
        self._stop_heart()
        self._authority.end()
        self._lost.set()
        self._port.execute(self._release("released", note=note))
        if self._span is not None:
            self._span.end("released", None)

    # Below the surface

    def _progress(self, note: str | None, percent: float | None) -> None:
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

    def _checkpoint(self, data: Any) -> None:
        self.check()
        command = build.checkpoint_job(self.job_id, self.lease_id, data, fencing_token=self.reply.fencing_token)
        self.take_reply(self._execute_retrying(command))

    def _hand_over(self, to_agent: str, note: str | None) -> HandedOverReply:
        session = self.reply.session
        if session is None:
            raise InvalidInput("claim", "did not come with its session, so only `Session.hand_over` can pass it on")
        self.check()
        reply = self._execute_retrying(build.hand_over(session.session_id, to_agent, note, lease_id=self.lease_id))
        self._stop_heart()
        self._is_handed_over = True
        self._loss = LeaseLost(self.job_id, f"it was handed over to {to_agent!r}")
        self._authority.end()
        return reply

    def _enter(self) -> None:
        self._start_heart()
        if self._port.spans is not None:
            self._span = self._port.spans.start_work(self.reply)

    def _leaving(self, error: BaseException | None) -> list[Command[Any]]:
        """The block ends. Gives what is to be executed then; `_left` is to be told the answers."""
        if self._span is not None:
            self._span.leave()
        if os.getpid() != self._pid or self._is_handed_over:
            return []  # a forked child leaves the block, too; the claim is its parent's, or another agent's
        self._stop_heart()
        self._left_at = self._authority.now()
        if error is not None:
            # A stop from outside (Ctrl-C, exit, a cancelled task) is no failure of the work.
            outcome: Outcome = "failed" if isinstance(error, Exception) else "released"
            return [self._release(outcome, error=describe(error))]
        if self._is_to_expire:
            return []
        ending, then = self._ending or self._release("released"), self._then()
        return [ending] if then is None else [ending, then]

    def _left(self, commands: list[Command[Any]], answers: list[Any], error: BaseException | None) -> None:
        """Raises why the claim could not be ended. It may have to try again, and so to wait, after `Unreachable`."""
        try:
            # What the block raised matters more than that its claim could not be given back; it expires by itself.
            with nullcontext() if error is None else suppress(OctoStoreError):
                if commands:
                    self._settle(commands[0], *answers)
        except Exception as fault:
            error = fault
            raise
        finally:
            self._has_ended = True
            self._authority.end()
            if self._span is not None and os.getpid() == self._pid:
                self._end_span(self._span, getattr(commands[0], "outcome", None) if commands else None, error)

    def _end_span(self, span: "WorkSpan", outcome: Outcome | None, error: BaseException | None) -> None:
        failure: Exception | str | None = self.failure
        if self._lost.is_set():
            failure = self._loss or LeaseLost(self.job_id, NOT_IN_TIME)
        elif isinstance(error, Exception):
            failure = error
        elif failure is None and outcome == "failed":
            failure = outcome
        span.end(outcome, failure)

    def _start_heart(self) -> None:
        self._heart.start()
        owners.add(self.job_id, self._heart.beat_now)

    def _stop_heart(self) -> None:
        owners.remove(self.job_id, self._heart.beat_now)
        self._heart.stop()

    def _beat(self) -> Any:
        return self._port.submit(heartbeat_of(self.reply, self.lease_id))

    def _release(self, outcome: Outcome, **ending: Any) -> Command[ReleaseReply]:
        ending["fencing_token"] = self.reply.fencing_token
        if self.reply.session is not None:
            session_id = self.reply.session.session_id
            return build.release_task(session_id, self.job_id, self.lease_id, outcome, **ending)
        return build.release_job(self.job_id, self.lease_id, outcome, **ending)

    def _lose(self, why: LeaseLost | NotFound | None) -> None:
        self._loss = why
        self._lost.set()
        if self._on_lost is not None:
            self._on_lost()

    def _settle(self, ending: Command[Any], ended: object, following: object = None) -> None:
        if isinstance(following, ClaimReply) and following.status == "claimed":
            self.following = granted(following, self._left_at)
        if not isinstance(ended, Unreachable):
            if isinstance(ended, OctoStoreError):
                raise ended
            return
        try:
            # Tried also when the lease counts as lost here: the store knows better, and refuses if it is.
            self._execute_retrying(ending)
        except Unreachable as fault:
            if self._lost.is_set():
                raise LeaseLost(self.job_id, NOT_IN_TIME) from fault
            raise

    def _execute_retrying(self, command: Command[R_co]) -> R_co:
        """Execute, and try again after a fault, but not for longer than the job is ours."""
        while True:
            try:
                return self._port.execute(command)
            except Unreachable as fault:
                if fault.is_lasting or fault.reason == "closed" or self.remaining() <= RETRY_SECONDS:
                    raise
                time.sleep(jittered(RETRY_SECONDS))


class HeldClaim(KeptClaim):
    """A claim for the length of a block. See `KeptClaim`."""

    def __init__(self, port: Port, granted: "Granted", **options: Any) -> None:
        self.lost = threading.Event()
        self.stop_requested = threading.Event()
        super().__init__(port, granted, self.lost, self.stop_requested, **options)

    def progress(self, note: str | None = None, *, percent: float | None = None) -> None:
        """Say what is being done, for people to see. It is a heartbeat, too."""
        self._progress(note, percent)

    def checkpoint(self, data: Any) -> None:
        """Leave what a successor needs to go on from here: JSON of up to 64 KiB. The last one counts."""
        self._checkpoint(data)

    def hand_over(self, to_agent: str, note: str | None = None) -> HandedOverReply:
        """Pass the task on to another agent, with the session that it came with. The block ends without settling it."""
        return self._hand_over(to_agent, note)

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        commands = self._leaving(error)
        self._left(commands, self._port.execute_all(commands), error)
