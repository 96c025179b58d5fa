"""Tool results that are not plain replies of the core. Leases stay in this process: no result contains one."""

from typing import Any, Literal

import msgspec

from octostore.core.events import Event
from octostore.core.model import Phase, Status
from octostore.core.moments import Moment
from octostore.core.replies import (
    AttemptView,
    ClaimReply,
    InFlight,
    JobOwner,
    JobPage,
    QueueStatus,
    Recovery,
    SessionReply,
)
from octostore.wire import responses


class Claimed(msgspec.Struct, tag_field="status", tag="claimed", kw_only=True):
    """It is yours, and this server sends your heartbeats. `fencing_token` guards what you write elsewhere."""

    job_id: str
    queue: str | None
    kind: str | None
    owner: str
    metadata: Any
    attempt: int
    fencing_token: int
    claimed_at: Moment
    ttl: float
    session_id: str | None
    payload: Any
    checkpoint: Any
    note: str | None
    previous: list[AttemptView]


class HeldByOther(responses.HeldByOther, tag="held", kw_only=True):
    """Another agent has it, and is alive."""

    held_here: bool = False
    """Claimed through this server: by you, or by another agent that shares it."""


class HasTask(msgspec.Struct, tag_field="status", tag="held", kw_only=True):
    """The session already has a task, and runs one at a time."""

    session_id: str
    job_id: str
    queue: str | None
    kind: str | None
    owner: str
    claimed_at: Moment
    expires_at: Moment


class Empty(QueueStatus, frozen=True, tag_field="status", tag="empty"):
    """Nothing to claim now; the rest says what else is in the queue."""


_BY_STATUS = responses.index_by_status(Claimed, HeldByOther, responses.Done, responses.Delayed, responses.Dead)


def claim_result(reply: ClaimReply, *, held_here: bool) -> msgspec.Struct:
    if reply.status == "empty":
        return msgspec.convert(reply.queue_status, Empty, from_attributes=True)
    result = msgspec.convert(reply, _BY_STATUS[reply.status], from_attributes=True)
    if isinstance(result, HeldByOther):
        result.held_here = held_here
    return result


def has_task_result(reply: ClaimReply) -> HasTask:
    return msgspec.convert(reply, HasTask, from_attributes=True)


class Kept(msgspec.Struct, kw_only=True):
    """The claim is alive, and stays so."""

    job_id: str
    expires_at: Moment


class Checkpointed(msgspec.Struct, kw_only=True):
    job_id: str
    saved_at: Moment


class OwnerResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`claim` is null if the job has no owner; `status` says what state it is in.

    Not `is_known`: nobody has ever claimed or enqueued it, and `similar` lists names that may have been meant.
    """

    job_id: str
    status: Status
    claim: JobOwner | None
    held_here: bool
    is_known: bool = True
    similar: list[str] = []


class ClaimedJobs(msgspec.Struct, kw_only=True):
    """`cursor` continues the listing; null means that this was the last page."""

    claimed: list[JobOwner]
    cursor: str | None


def claimed_jobs(page: JobPage) -> ClaimedJobs:
    return ClaimedJobs(claimed=[job.claim for job in page.jobs if job.claim is not None], cursor=page.cursor)


class MyClaim(msgspec.Struct, kw_only=True):
    """`lost`: it is no longer yours (`why` says why), and `holder` is who has it now.

    `is_to_stop`: someone wants you to stop working on it, for `stop_reason`. Finish up, and release it.
    """

    job_id: str
    status: Literal["claimed", "lost"]
    owner: str
    attempt: int
    fencing_token: int
    claimed_at: Moment | None
    ttl: float
    remaining_seconds: float
    stuck: bool = False
    is_to_stop: bool = False
    stop_reason: str | None = None
    why: str | None = None
    holder: JobOwner | None = None


class MyClaims(msgspec.Struct, kw_only=True):
    claims: list[MyClaim]


class Recovered(msgspec.Struct, kw_only=True):
    """Claims of owners that disappeared, with the evidence."""

    recovered: list[Recovery]


class ShortEvent(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What happened, to what, and to whom; `by` is who did it, if that is someone else."""

    seq: int
    at: Moment
    type: str
    job_id: str | None = None
    session_id: str | None = None
    agent: str | None = None
    by: str | None = None
    reason: str | None = None


class Events(msgspec.Struct, kw_only=True):
    """`after` continues."""

    events: list[ShortEvent] | list[Event]
    after: int


def short(event: Event, *, is_of_one_job: bool) -> ShortEvent:
    return ShortEvent(
        seq=event.seq,
        at=event.at,
        type=event.type,
        job_id=None if is_of_one_job else event.job_id,
        session_id=event.session_id,
        agent=event.agent,
        by=event.actor if event.agent is None or event.type in BY_OTHERS else None,
        reason=event.reason,
    )


BY_OTHERS = frozenset({"force_released", "cancelled", "stop_requested", "requeued"})


class Opened(msgspec.Struct, kw_only=True):
    """`in_flight` is what the session was working on, as of now; jobs that are `is_ours` are already claimed by you.

    A job with `available_at` cannot be claimed before then.
    """

    session_id: str
    agent: str
    resumed: bool
    ttl: float
    phase: Phase
    context: Any
    note: str | None
    in_flight: list[InFlight]


def opened_result(reply: SessionReply) -> Opened:
    opened = msgspec.convert(reply, Opened, from_attributes=True)
    opened.in_flight = [_without_past(job, reply.opened_at) for job in reply.in_flight]
    return opened


def _without_past(job: InFlight, now: Moment) -> InFlight:
    """A model does not know what time it is, so it cannot tell whether `available_at` has passed."""
    is_past = job.available_at is not None and job.available_at <= now
    return msgspec.structs.replace(job, available_at=None) if is_past else job


class Saved(msgspec.Struct, kw_only=True):
    session_id: str
    phase: Phase


class Closed(msgspec.Struct, kw_only=True):
    session_id: str
