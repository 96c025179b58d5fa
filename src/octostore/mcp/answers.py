"""What the tools answer, where it is not a reply of the core as it is. Leases stay in this process: none has any."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from octostore.core.model import Status
from octostore.core.moments import Moment
from octostore.core.replies import AttemptView, ClaimReply, JobOwner, JobPage, Recovery
from octostore.wire import answers

HeldHere = Annotated[
    bool, Meta(description="This server has it: for you, or for another agent that uses the same server.")
]


class Claimed(msgspec.Struct, tag_field="status", tag="claimed", kw_only=True):
    """It is yours, and this server heartbeats for you. `fencing_token` guards what you write elsewhere."""

    job_id: str
    queue: str | None
    kind: str | None
    owner: str
    metadata: Any
    attempt: Annotated[int, Meta(description="1, or more after others have failed or disappeared.")]
    fencing_token: int
    claimed_at: Moment
    ttl: Annotated[float, Meta(description="Seconds.")]
    payload: Any
    checkpoint: Annotated[Any, Meta(description="What the last owner left for you to go on from.")]
    note: str | None
    previous: Annotated[list[AttemptView], Meta(description="How earlier attempts ended, newest first.")]


class HeldByOther(answers.HeldByOther, tag="held", kw_only=True):
    """Somebody has it, and is alive."""

    held_here: HeldHere = False


CLAIM_ANSWERS: list[type[msgspec.Struct]] = [Claimed, HeldByOther, answers.Done, answers.Delayed, answers.Dead]
NEXT_ANSWERS: list[type[msgspec.Struct]] = [Claimed, answers.Empty]
_BY_STATUS = answers.by_status(*CLAIM_ANSWERS, *NEXT_ANSWERS)


def claim_answer(reply: ClaimReply, *, held_here: bool) -> msgspec.Struct:
    answer = msgspec.convert(reply, _BY_STATUS[reply.status], from_attributes=True)
    if isinstance(answer, HeldByOther):
        answer.held_here = held_here
    return answer


class Kept(msgspec.Struct, kw_only=True):
    """The claim is alive, and stays so by itself."""

    job_id: str
    expires_at: Moment


class OwnerAnswer(msgspec.Struct, kw_only=True):
    """`claim` is null where nobody has the job; `status` tells how it stands.

    Not `is_known`: nobody has ever claimed or enqueued it, and `similar` are names that may have been meant.
    """

    job_id: str
    status: Status
    claim: JobOwner | None
    held_here: HeldHere
    is_known: bool = True
    similar: list[str] = []


class ClaimedJobs(msgspec.Struct, kw_only=True):
    """`cursor` continues the listing; null means that this was the last page."""

    claimed: list[JobOwner]
    cursor: str | None


def claimed_jobs(page: JobPage) -> ClaimedJobs:
    return ClaimedJobs(claimed=[job.claim for job in page.jobs if job.claim is not None], cursor=page.cursor)


class MyClaim(msgspec.Struct, kw_only=True):
    """`lost`: it is no longer yours, for the reason that `why` gives, and `holder` is who has it now.

    `is_to_stop`: somebody wants you to stop working on it, for `stop_reason`. Finish up, and release it.
    """

    job_id: str
    status: Literal["claimed", "lost"]
    owner: str
    attempt: int
    fencing_token: int
    claimed_at: Moment | None
    ttl: float
    remaining_seconds: float
    stuck: Annotated[bool, Meta(description="You have reported nothing for longer than its `max_silence`.")] = False
    is_to_stop: bool = False
    stop_reason: str | None = None
    why: str | None = None
    holder: JobOwner | None = None


class MyClaims(msgspec.Struct, kw_only=True):
    claims: list[MyClaim]


class Recovered(msgspec.Struct, kw_only=True):
    """What was taken back from owners that disappeared, with the evidence."""

    recovered: list[Recovery]
