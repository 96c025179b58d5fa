"""Every change a caller can ask for, as values.

A command checks its own limits when built, so one that exists is valid. Durations are in seconds, as callers pass them;
JSON values arrive encoded. The reply to a `Command[R]` is an `R`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from octostore.core import limits
from octostore.core.checks import CHECKS, Checked, against, between, check_session_id
from octostore.core.errors import InvalidInput
from octostore.core.model import LOCAL, Outcome, Phase, Scope
from octostore.core.names import check_job_id, check_lock_name
from octostore.core.permit import Permit
from octostore.core.replies import (
    ChangedReply,
    CheckpointReply,
    ClaimReply,
    ClosedReply,
    EnqueueReply,
    HandedOverReply,
    HeartbeatReply,
    JobView,
    KeepaliveReply,
    ProbeReply,
    QueueView,
    RecoverReply,
    ReleaseReply,
    Reply,
    SavedReply,
    SessionReply,
    TokenView,
    UndoReply,
)
from octostore.core.secret_free import SecretFree

_decode = msgspec.json.Decoder().decode

R_co = TypeVar("R_co", bound=Reply, covariant=True)


class Command(SecretFree, Checked, Generic[R_co], frozen=True, kw_only=True):
    """`principal` is the authenticated caller; it is recorded as the actor of what happens.

    `until` is when the caller stops waiting, on the clock of the process that runs the command (`boottime`). Nothing is
    done after that, nor once the token of its `permit` has ended.
    """

    principal: str = LOCAL
    until: float | None = None
    permit: Permit | None = None

    founds: ClassVar[bool] = False
    """Whether it may create the store. Commands about something that must already exist may not."""


AnyCommand: TypeAlias = Command[Any]


class ClaimTerms(Command[ClaimReply], frozen=True, kw_only=True):
    """What the ways of claiming have in common."""

    founds = True

    owner: str
    metadata: bytes | None = None
    ttl: float = limits.TTL_DEFAULT_SECONDS
    session_id: str | None = None
    request_id: str | None = None
    lock_delay: float = 0
    max_claims: int | None = None
    """The maximum number of live claims (of locks, or of other jobs) for the principal."""
    max_silence: float | None = None
    """How long the owner may go without reporting progress before it counts as stuck. None: forever."""
    host: str | None = None
    pid: int | None = None
    """The calling process, so that people can find it. Self-reported, like `owner`."""
    traceparent: str | None = None
    """The trace of this attempt; the trace of the next attempt links to it."""

    CHECKS: ClassVar = {"session_id": check_session_id}


class ClaimJob(ClaimTerms, frozen=True, kw_only=True):
    """Become the owner of a job. With the `request_id` of one's own live claim: get that claim again."""

    job_id: str
    again: bool = False


check_lock_ttl = between(limits.check_seconds, limits.TTL_MIN_MS, limits.LOCK_TTL_MAX_MS)


def _check_lock_metadata(field: str, metadata: bytes) -> None:
    """A lock's metadata is text; two spellings of the same text in JSON are equal."""
    text: Any = _decode(metadata)
    limits.check_characters(field, text, limits.LOCK_METADATA_CHARACTERS)


class AcquireLock(ClaimTerms, frozen=True, kw_only=True):
    """Claim a job as a lock. If its holder acquires it again, that renews it and changes nothing else.

    The holder is the principal, or its session if the lock is `ephemeral`; such a lock ends with the session. Agents
    that share a principal are distinguished by `holder`, or else by their session and metadata.
    """

    job_id: str
    holder: str | None = None
    ttl: float = limits.LOCK_TTL_DEFAULT_SECONDS
    ephemeral: bool = False

    CHECKS: ClassVar = {"job_id": check_lock_name, "ttl": check_lock_ttl, "metadata": _check_lock_metadata}

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.ephemeral and self.session_id is None:
            raise InvalidInput("ephemeral", "needs a session_id: such a lock ends with its session")


class ClaimNext(ClaimTerms, frozen=True, kw_only=True):
    """Claim the first job in a queue: lowest priority, then earliest due, then oldest."""

    queue: str = "default"
    kinds: tuple[str, ...] | None = None
    prefix: str = ""
    """Only jobs whose names start with it."""
    until_done: bool = False
    """Stop waiting once every job in the queue is done or dead."""


class ClaimTask(ClaimTerms, frozen=True, kw_only=True):
    """Acquire a session and claim its next task in one step: the first job of the first queue that has one.

    `owner` is the agent, and `ttl` the session's. The session's lease is also the claim's. If there is no task, the
    session stays as it is. A session that was handed over to the agent is taken, with its task.

    With the `lease_id` of an open session, the task is claimed within it, and the session keeps its TTL.
    """

    session_id: str
    lease_id: str | None = None
    queues: tuple[str, ...]
    kinds: tuple[str, ...] | None = None
    prefix: str = ""
    max_sessions: int | None = None


class LeaseCommand(Command[R_co], frozen=True, kw_only=True):
    """A write by an owner. It names the lease that authorises it, and its fencing token."""

    job_id: str
    lease_id: str
    fencing_token: int | None = None


class HeartbeatJob(LeaseCommand[HeartbeatReply], frozen=True, kw_only=True):
    """Prove you are alive, and report what you are doing. `ttl` changes the claim's; by default, it keeps its own.

    `number` grows with each write of its kind under a lease, here and below: a late write changes nothing.
    """

    ttl: float | None = None
    note: str | None = None
    percent: float | None = None
    number: int | None = None


class CheckpointJob(LeaseCommand[CheckpointReply], frozen=True, kw_only=True):
    """Save what a successor needs to continue. The last one counts."""

    data: bytes
    number: int | None = None


class ReleaseJob(LeaseCommand[ReleaseReply], frozen=True, kw_only=True):
    """End the claim: `released` (free again), `done`, `failed` (retried) or `deferred` (later, not an attempt)."""

    outcome: Outcome = "released"
    result: bytes | None = None
    error: str | None = None
    note: str | None = None
    retry_after: float | None = None

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.result is not None and self.outcome != "done":
            raise InvalidInput("result", "is only allowed with the outcome done")
        if self.retry_after is not None and self.outcome not in {"failed", "deferred"}:
            raise InvalidInput("retry_after", "is only allowed with the outcome failed or deferred")


class ReleaseTask(ReleaseJob, frozen=True, kw_only=True):
    """Settle a session's task and free the session in one step. The lease is the session's."""

    session_id: str


class ReleaseLock(LeaseCommand[ReleaseReply], frozen=True, kw_only=True):
    """Release a lock. An ended lease is gone, even for the caller that ended it."""

    CHECKS: ClassVar = {"job_id": check_lock_name}


class Undo(Command[UndoReply], frozen=True, kw_only=True):
    """Undo a claim or session whose caller stopped waiting, unless anyone has received it since.

    Takes a `session_id` for a session, and for a task that came with one.
    """

    lease_id: str
    job_id: str | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if (self.job_id is None) == (self.session_id is None):
            raise InvalidInput("job_id", "or session_id is required, but not both")


class Enqueue(Command[EnqueueReply], frozen=True, kw_only=True):
    """Put a job in a queue. Changes nothing if it is already enqueued."""

    founds = True

    job_id: str
    kind: str
    payload: bytes | None = None
    queue: str = "default"
    priority: int = limits.PRIORITY_DEFAULT
    run_at: int | None = None
    delay: float | None = None
    """Seconds from now, by the store's clock, instead of `run_at`."""
    max_attempts: int = limits.MAX_ATTEMPTS_DEFAULT
    max_queued: int | None = None
    """The maximum number of queued jobs for the principal."""
    traceparent: str | None = None
    """The trace in which it is enqueued, to which each attempt links."""

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.run_at is not None and self.delay is not None:
            raise InvalidInput("delay", "cannot be combined with run_at")


class _OperatorCommand(Command[JobView], frozen=True, kw_only=True):
    job_id: str
    reason: str | None = None


class CancelJob(_OperatorCommand, frozen=True, kw_only=True):
    """Take a job out of its queue, and away from its owner if it has one. It is then dead; `requeue` brings it back.

    With `drain`, an owner is asked to stop instead, and the job is dead when the claim ends, unless it is done by then.
    """

    drain: bool = False


class RequestStop(_OperatorCommand, frozen=True, kw_only=True):
    """Ask the owner of a job to stop. It learns this with its next heartbeat, and decides what happens to the job."""


class DiscardJob(_OperatorCommand, frozen=True, kw_only=True):
    """Give up a dead job for good. Its name becomes free, and its events stay in the log."""


class RequeueJob(_OperatorCommand, frozen=True, kw_only=True):
    """Run a dead or finished job again, or retry a waiting one now.

    A dead job gets all its attempts back. With `keep_attempts` it gets one more, and is dead again if that fails.
    """

    keep_attempts: bool = False


class ForceReleaseJob(_OperatorCommand, frozen=True, kw_only=True):
    """Take a live claim away from its owner. Not an attempt; the owner's next write gets `LeaseLost`."""


class MatchingCommand(Command[ChangedReply], frozen=True, kw_only=True):
    """Change one batch of dead jobs, in name order: up to `limit` of those that match all conditions.

    The reply says after which name the next batch begins. A job that dies again meanwhile is behind that name, and is
    not changed twice. With `kind`, which has no index, up to `MATCHING_MAX` dead jobs are scanned, however many match.
    """

    reason: str
    prefix: str = ""
    queue: str | None = None
    kind: str | None = None
    after: str | None = None
    limit: int = limits.MATCHING_DEFAULT

    CHECKS: ClassVar = {
        "reason": against(limits.check_line, limits.TEXT_BYTES),
        "after": check_job_id,
        "limit": between(limits.check_whole, 1, limits.MATCHING_MAX),
    }


class RequeueMatching(MatchingCommand, frozen=True, kw_only=True):
    """`RequeueJob` for all matching dead jobs."""

    keep_attempts: bool = False


class DiscardMatching(MatchingCommand, frozen=True, kw_only=True):
    """`DiscardJob` for all matching dead jobs."""


def _check_limit(field: str, limit: int | None) -> None:
    if limit is not None:
        CHECKS[field](field, limit)


class SetQueue(Command[QueueView], frozen=True, kw_only=True):
    """Change the settings of a queue; omitted settings stay as they are.

    `max_claimed` limits how many of its jobs may be claimed at the same time: 1 makes it serial, None lifts the limit.
    While it is `paused`, no job can be claimed; existing claims continue.
    """

    founds = True

    queue: str
    max_claimed: int | msgspec.UnsetType | None = msgspec.UNSET
    paused: bool | None = None
    reason: str | None = None

    CHECKS: ClassVar = {"max_claimed": _check_limit}

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.max_claimed is msgspec.UNSET and self.paused is None:
            raise InvalidInput("max_claimed", "or paused is required; otherwise, there is nothing to change")


class OpenSession(Command[SessionReply], frozen=True, kw_only=True):
    """Open a session, or resume one that has ended, with its context. Refused while it is alive elsewhere.

    A session that was handed over to this agent is taken, with the claims bound to it, which get the session's lease.
    """

    founds = True

    session_id: str
    agent: str
    ttl: float = limits.TTL_DEFAULT_SECONDS
    request_id: str | None = None
    max_sessions: int | None = None
    """The maximum number of open sessions for the principal."""
    without_lease: bool = False
    """For lock clients: the principal may then write to the session without a lease."""

    CHECKS: ClassVar = {"session_id": check_session_id}


class _SessionCommand(Command[R_co], frozen=True, kw_only=True):
    """A write to a session by the holder of its lease; without one, by its principal if a lock client opened it."""

    session_id: str
    """Its id; `principal/id` for another principal's session, unless the command opens it or binds a claim to it."""
    lease_id: str | None = None


class _EndingCommand(_SessionCommand[R_co], frozen=True, kw_only=True):
    """A write that takes the session away from its holder, which operators may do without its lease."""

    as_operator: bool = False
    """Whether the principal is an operator; `LOCAL` always is."""

    @property
    def is_by_operator(self) -> bool:
        return self.as_operator or self.principal == LOCAL


class KeepSessionAlive(_SessionCommand[KeepaliveReply], frozen=True, kw_only=True):
    """One heartbeat for the session and all claims bound to it."""


class SaveSession(_SessionCommand[SavedReply], frozen=True, kw_only=True):
    """Save the session's context for the next owner, and report what it is doing now."""

    context: bytes
    phase: Phase | None = None
    number: int | None = None


class HandOverSession(_EndingCommand[HandedOverReply], frozen=True, kw_only=True):
    """Pass a live session to another agent of the same principal, with its context and the claims bound to it.

    This invalidates the caller's lease. The session lives for another TTL, during which `to_agent` must open it.
    """

    to_agent: str
    note: str | None = None


class CloseSession(_EndingCommand[ClosedReply], frozen=True, kw_only=True):
    """End the session and release the claims bound to it. Its context stays."""


class _TokenCommand(Command[TokenView], frozen=True, kw_only=True):
    token_id: str


class CreateToken(_TokenCommand, frozen=True, kw_only=True):
    """Let anyone who knows the secret of `digest` act as the principal `name`. Repeating it changes nothing."""

    founds = True

    name: str
    digest: bytes
    scopes: tuple[Scope, ...] = ("read", "claim")
    prefix: str = ""
    expires_in: float | None = None


class RotateToken(_TokenCommand, frozen=True, kw_only=True):
    """Replace a token's secret; the old one stops working immediately."""

    digest: bytes


class RevokeToken(_TokenCommand, frozen=True, kw_only=True):
    """End a token for good."""


class Recover(Command[RecoverReply], frozen=True, kw_only=True):
    """Record expiries now, up to `RECOVER_LIMIT` of them, and report what was recovered."""


class Probe(Command[ProbeReply], frozen=True, kw_only=True):
    """Write the store's position durably, and change nothing else: a check that the store works."""


class Batch(NamedTuple):
    """Commands to run in order. `atomic`: in one transaction, so that nobody sees part of it."""

    commands: Sequence[Command[Any]]
    atomic: bool = True

    @property
    def steps(self) -> list[Sequence[Any]]:
        """What runs in one transaction."""
        step = limits.BATCH_MAX if self.atomic else limits.BATCH_STEP
        return [self.commands[start : start + step] for start in range(0, len(self.commands), step)]
