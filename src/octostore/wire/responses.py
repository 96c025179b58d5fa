"""Response bodies that differ from the core's replies.

The response to a claim has only the fields that belong to its `status`; the client decodes all of them as `ClaimReply`.
"""

from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from octostore.core.moments import Moment
from octostore.core.replies import (
    AttemptView,
    ClaimReply,
    PauseView,
    ProgressView,
    QueueStatus,
    SessionReply,
    SessionView,
    StopView,
    TokenView,
)
from octostore.core.secret_free import SecretFree

S = TypeVar("S", bound=msgspec.Struct)


class _Claim(SecretFree, msgspec.Struct, tag_field="status", kw_only=True):
    job_id: str | None
    queue: str | None
    kind: str | None


class _Owned(_Claim):
    owner: str
    principal: str
    claimed_at: Moment
    heartbeat_at: Moment
    expires_at: Moment


class _Live(_Owned):
    raw_metadata: msgspec.Raw = msgspec.field(name="metadata")
    fencing_token: int
    attempt: int
    session_id: str | None


class Claimed(_Live, tag="claimed"):
    """The job is yours. `lease_id` authorises every later write; `fencing_token` protects what you write elsewhere."""

    lease_id: str
    ttl: Annotated[float, Meta(description="Seconds.")]
    remaining_ms: int
    renew_after_ms: int
    replayed: bool
    raw_payload: msgspec.Raw = msgspec.field(name="payload")
    raw_checkpoint: msgspec.Raw = msgspec.field(name="checkpoint")
    note: str | None
    previous: list[AttemptView]
    max_silence: Annotated[float | None, Meta(description="Seconds.")]
    traceparent: Annotated[str | None, Meta(description="The trace context in which the job was enqueued.")]
    attempt_traceparent: Annotated[str | None, Meta(description="The trace context of this attempt.")]


class HeldByOther(_Live, tag="held"):
    """Someone else owns the job and is alive."""

    progress: ProgressView | None
    retry_after_ms: int
    host: str | None
    pid: int | None
    stuck: Annotated[
        bool, Meta(description="The owner is alive, but has reported no progress for longer than its `max_silence`.")
    ]


class Done(_Claim, tag="done"):
    """The job is finished."""

    raw_result: msgspec.Raw = msgspec.field(name="result")
    note: str | None
    previous: list[AttemptView]


class Delayed(_Claim, tag="delayed"):
    """Nobody owns the job, but it cannot be claimed before `available_at`, or while its queue is paused or full."""

    available_at: Moment
    retry_after_ms: int
    error: str | None
    previous: list[AttemptView]
    pause: PauseView | None
    max_claimed: Annotated[int | None, Meta(description="The limit of the queue, if that is why.")]


class Dead(_Claim, tag="dead"):
    """The job has exhausted its attempts or was cancelled. `requeue` brings it back."""

    error: str | None
    note: str | None
    previous: list[AttemptView]


class Empty(_Claim, tag="empty"):
    """No job in the queue can be claimed now; `queue_status` says what the queue contains."""

    available_at: Annotated[
        Moment | None, Meta(description="When the next job in the queue is due; null if none is scheduled.")
    ]
    retry_after_ms: int
    all_done: Annotated[
        bool, Meta(description="Every job is done or dead: nothing will come unless someone adds or requeues a job.")
    ]
    queue_status: QueueStatus


ClaimResponse: TypeAlias = Claimed | HeldByOther | Done | Delayed | Dead
ClaimNextResponse: TypeAlias = Claimed | Empty


def index_by_status(*kinds: type[msgspec.Struct]) -> dict[Any, type[msgspec.Struct]]:
    return {kind.__struct_config__.tag: kind for kind in kinds}


_RESPONSES = index_by_status(Claimed, HeldByOther, Done, Delayed, Dead, Empty)


def claim_response(reply: ClaimReply) -> msgspec.Struct:
    return msgspec.convert(reply, _RESPONSES[reply.status], from_attributes=True)


class TaskClaimed(Claimed, tag="claimed"):
    """The session and this task are yours, under one `lease_id`. `session` is null if you already had it open."""

    session: SessionReply | None


class SessionHeld(_Owned, tag="held"):
    """Someone else has the session and is alive; or you sent its `lease_id`, and it still has the task `job_id`."""

    session_id: str
    fencing_token: int | None
    retry_after_ms: int


ClaimTaskResponse: TypeAlias = TaskClaimed | SessionHeld | Empty
_TASK_RESPONSES = index_by_status(TaskClaimed, SessionHeld, Empty)


def task_response(reply: ClaimReply) -> msgspec.Struct:
    return msgspec.convert(reply, _TASK_RESPONSES[reply.status], from_attributes=True)


def extend_view(kind: type[S], view: msgspec.Struct, **more: Any) -> S:
    """Copy `view` into its subclass `kind`, with the additional fields."""
    return kind(**{name: getattr(view, name) for name in view.__struct_fields__}, **more)


class OpenedSession(SessionReply, frozen=True, kw_only=True):
    keepalive_interval_secs: float

    @classmethod
    def of(cls, reply: SessionReply) -> Self:
        return extend_view(cls, reply, keepalive_interval_secs=max(1, int(reply.ttl // 2)))


class SessionState(SessionView, frozen=True, kw_only=True):
    """A session, with the extra fields that lock clients know."""

    user_id: str
    active: bool
    lock_count: int


class SessionList(msgspec.Struct, kw_only=True):
    """`cursor` continues the list; it is null on the last page. Contexts are left out."""

    sessions: list[SessionState]
    cursor: str | None


class NewToken(TokenView, frozen=True, kw_only=True):
    """`token` is the secret, shown only once, and not at all if you generated it yourself."""

    token: str | None


class RotatedToken(SecretFree, msgspec.Struct, kw_only=True):
    token: str | None
    user_id: str
    github_username: str
    namespace: str


class LoginLink(SecretFree, msgspec.Struct, kw_only=True):
    """`code` works once, until `expires_at`, on the server that issued it."""

    code: str
    expires_at: Moment


# Locks


class LockAcquired(SecretFree, msgspec.Struct, tag_field="status", tag="acquired", kw_only=True):
    lease_id: str
    fencing_token: int
    expires_at: Moment
    renew_after_ms: int
    metadata: str | None


class LockHeld(msgspec.Struct, tag_field="status", tag="held", kw_only=True):
    holder_id: str
    expires_at: Moment
    retry_after_ms: int
    metadata: str | None


class LockDelayed(msgspec.Struct, tag_field="status", tag="delayed", kw_only=True):
    available_at: Moment
    lock_delay_seconds: int
    retry_after_ms: int


class LockRenewed(SecretFree, msgspec.Struct, kw_only=True, omit_defaults=True):
    """`stop_requested` is present if an operator wants the lock released."""

    lease_id: str
    expires_at: Moment
    renew_after_ms: int
    stop_requested: StopView | None = None


class LockState(msgspec.Struct, kw_only=True):
    name: str
    status: Literal["free", "held"]
    holder_id: str | None
    fencing_token: int
    expires_at: Moment | None
    metadata: str | None


class LockList(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`total` counts the locks on all pages. `cursor` continues the list; it is absent on the last page."""

    locks: list[LockState]
    total: int
    prefix: str | None
    cursor: str | None = None


# The server itself


class About(msgspec.Struct, kw_only=True):
    """What this server is, and where its documentation is."""

    name: Literal["OctoStore"]
    version: str
    page: Annotated[str, Meta(pattern="^/")]
    docs: str
    openapi: str


class Health(msgspec.Struct, kw_only=True):
    status: Literal["ok"]
    version: str
    store_id: str


class Readiness(msgspec.Struct, kw_only=True):
    """`ready` means that a test write reached the store's disk."""

    status: Literal["ready"]
    seq: int
    at: Annotated[Moment, Meta(description="When the test write happened, by the store's clock.")]
    version: str


class ServerStatus(msgspec.Struct, kw_only=True):
    status: Literal["ok"]
    version: str
    uptime_seconds: int
    active_locks: int
    total_acquires: int
    total_releases: int
    open_sessions: int
    dead_jobs: int
    seq: int
    store_id: str
