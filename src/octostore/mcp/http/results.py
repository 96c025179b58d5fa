"""Tool results over HTTP, where they differ: the handle, and when the claim or session expires."""

from typing import Literal

import msgspec

from octostore.core.moments import Moment
from octostore.core.replies import ClaimReply, JobOwner, SessionReply
from octostore.mcp import results as r


class ClaimedByHandle(r.Claimed, tag="claimed", kw_only=True):
    """Yours until `expires_at`; every call with the `handle` extends it by `ttl` seconds."""

    handle: str
    expires_at: Moment | None


def claimed_by_handle(reply: ClaimReply, handle: str) -> ClaimedByHandle:
    claimed = msgspec.convert(reply, r.Claimed, from_attributes=True)
    return ClaimedByHandle(**msgspec.structs.asdict(claimed), handle=handle, expires_at=reply.expires_at)


class HasTaskByHandle(r.HasTask, tag="held", kw_only=True):
    """With the task's `handle`, for an agent that has lost it."""

    handle: str


def has_task_by_handle(reply: ClaimReply, handle: str) -> HasTaskByHandle:
    return HasTaskByHandle(**msgspec.structs.asdict(r.has_task_result(reply)), handle=handle)


class SavedCheckpoint(r.Checkpointed, kw_only=True):
    expires_at: Moment | None


class ClaimState(msgspec.Struct, kw_only=True):
    """`lost`: it is no longer yours (`why` says why), and `holder` is who has it now.

    `invalid`: it is not the handle of any of your claims (`why` says what it is), so nothing is known about the job.
    """

    handle: str
    job_id: str | None = None
    status: Literal["claimed", "lost", "invalid"]
    expires_at: Moment | None = None
    why: str | None = None
    holder: JobOwner | None = None


class CheckedClaims(msgspec.Struct, kw_only=True):
    claims: list[ClaimState]


class OpenedByHandle(r.Opened, kw_only=True):
    """`handles`, by job, are for the claims that came with the session."""

    handle: str
    expires_at: Moment
    handles: dict[str, str]


def opened_by_handle(reply: SessionReply, handle: str, handles: dict[str, str]) -> OpenedByHandle:
    opened = msgspec.structs.asdict(r.opened_result(reply))
    return OpenedByHandle(**opened, handle=handle, expires_at=reply.expires_at, handles=handles)
