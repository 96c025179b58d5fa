"""Errors over HTTP, in both directions: one envelope, and enough in it to raise the same error on the other side."""

from typing import Any

import msgspec

from octostore.core.errors import (
    Conflict,
    Held,
    InvalidInput,
    LeaseLost,
    LimitExceeded,
    NotAllowed,
    NotFound,
    OctoStoreError,
    Unreachable,
)
from octostore.core.moments import Moment
from octostore.core.replies import AttemptView, JobOwner, ProgressView


class Failure(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`error` says what happened, `code` is a stable word for it, `details` what can be done about it."""

    error: str
    code: str
    details: str = ""
    request_id: str = ""
    retry_after_ms: int | None = None

    # What the errors of some codes carry besides.
    field: str | None = None
    limit: float | None = None
    size: float | None = None
    status: str | None = None
    reason: str | None = None
    owner: str | None = None
    claimed_at: Moment | None = None
    heartbeat_at: Moment | None = None
    expires_at: Moment | None = None
    metadata: Any = None
    progress: ProgressView | None = None
    ended: AttemptView | None = None
    holder: JobOwner | None = None


class Problem(msgspec.Struct, kw_only=True):
    """The same as RFC 9457 has it, for those who accept `application/problem+json`; all else is as in `Failure`."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str


DETAILS = {
    "invalid_input": "Correct the request; nothing was changed.",
    "held": "Wait until it ends, or ask its owner.",
    "lease_lost": "Stop working on the job: what you write now is refused. `holder` says who has it.",
    "conflict": "Look first at how things stand; nothing was changed.",
    "limit_exceeded": "Release something that you hold, or ask an operator for a higher limit.",
    "not_allowed": "Use a token that may do this.",
    "not_found": "Check the name.",
    "unreachable": "Nothing is known about the job; try again later.",
}

STATUSES = {
    "invalid_input": 400,
    "held": 409,
    "lease_lost": 409,
    "conflict": 409,
    "limit_exceeded": 409,
    "not_allowed": 403,
    "not_found": 404,
    "unreachable": 503,
}
UNREACHABLE_RETRY_MS = 1_000


def failure_of(error: OctoStoreError) -> Failure:
    """What is told of `error`. Its own attributes have the same names here."""
    failure = Failure(error=str(error), code=error.code, details=DETAILS.get(error.code, ""))
    for name, value in vars(error).items():
        if name in Failure.__struct_fields__:
            setattr(failure, name, value)
    if isinstance(error, Unreachable):
        failure.retry_after_ms = UNREACHABLE_RETRY_MS
    return failure


def error_of(failure: Failure, subject: str) -> OctoStoreError:
    """The error that the other side had, for `subject` (a job or a session)."""
    error = _new_error(failure, subject)
    # The words of the other side, not what the constructors would make of them.
    error.args = (failure.error,)
    return error


def _new_error(failure: Failure, subject: str) -> OctoStoreError:  # noqa: PLR0911  # one case for each code
    match failure.code:
        case "lease_lost":
            return LeaseLost(subject, failure.error, ended=failure.ended, holder=failure.holder)
        case "conflict":
            return Conflict(failure.error, status=failure.status)
        case "limit_exceeded":
            return LimitExceeded(failure.error, limit=int(failure.limit or 0))
        case "not_found":
            return NotFound(failure.error)
        case "invalid_input":
            return InvalidInput(failure.field or "request", failure.error, limit=failure.limit, size=failure.size)
        case "unreachable":
            return Unreachable(failure.error, reason=failure.reason or "server")
        case "held" if failure.owner and failure.claimed_at and failure.heartbeat_at and failure.expires_at:
            return Held(
                subject,
                owner=failure.owner,
                claimed_at=failure.claimed_at,
                heartbeat_at=failure.heartbeat_at,
                expires_at=failure.expires_at,
                metadata=failure.metadata,
                progress=failure.progress,
            )
        case _:
            return NotAllowed(failure.error)
