"""Errors over HTTP, in both directions: one envelope, and enough in it to raise the same error on the other side."""

from typing import Any

import msgspec

from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.moments import Moment
from octostore.core.replies import AttemptView, JobOwner, ProgressView
from octostore.wire.errors import error_kind


class Failure(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`error` says what happened, `code` is a stable word for it, `details` what can be done about it."""

    error: str
    code: str
    details: str = ""
    request_id: str = ""
    retry_after_ms: int | None = None

    # What the errors of some codes carry besides.
    job_id: str | None = None
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
    similar: list[str] | None = None


class Problem(msgspec.Struct, kw_only=True):
    """The same as RFC 9457 has it, for those who accept `application/problem+json`; all else is as in `Failure`."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str


UNREACHABLE_RETRY_MS = 1_000


def failure_from_error(error: OctoStoreError) -> Failure:
    """What is told of `error`. Its own attributes have the same names here."""
    told = {name: value for name, value in vars(error).items() if name in Failure.__struct_fields__}
    failure = Failure(error=str(error), code=error.code, details=error_kind(error.code).advice, **told)
    if isinstance(error, Unreachable):
        failure.retry_after_ms = UNREACHABLE_RETRY_MS
    return failure


def error_from_failure(failure: Failure) -> OctoStoreError:
    """The error that the other side had, in its words."""
    kind = error_kind(failure.code)
    error = kind.raises.__new__(kind.raises)
    # The advice on what a server itself refuses is written for whoever calls it.
    is_of_store = failure.code == kind.raises.code
    error.args = (failure.error if is_of_store else f"{failure.error}. {failure.details}".rstrip(". "),)
    told = {name: getattr(failure, name) for name in error_kind(kind.raises.code).carries}
    error.__dict__.update(told | {name: it for name, it in _USUAL.items() if name in told and told[name] is None})
    return error


_USUAL = {"field": "request", "reason": "server"}
"""Where the other side does not say."""
