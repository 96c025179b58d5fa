"""The error envelope. It carries enough for the client to raise the same exception."""

from typing import Any

import msgspec

from octostore.core.errors import OctoStoreError, Unreachable
from octostore.core.moments import Moment
from octostore.core.replies import AttemptView, JobOwner, ProgressView
from octostore.wire.errors import error_kind


class Failure(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`error` says what happened, `code` is a stable name for it, and `details` says what to do about it."""

    error: str
    code: str
    details: str = ""
    request_id: str = ""
    retry_after_ms: int | None = None

    # Only with some codes.
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
    """The same error as problem details (RFC 9457), for `Accept: application/problem+json`, with `Failure`'s fields."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str


UNREACHABLE_RETRY_MS = 1_000


def failure_from_error(error: OctoStoreError) -> Failure:
    attributes = {name: value for name, value in vars(error).items() if name in Failure.__struct_fields__}
    failure = Failure(error=str(error), code=error.code, details=error_kind(error.code).advice, **attributes)
    if isinstance(error, Unreachable) and not error.is_lasting:
        failure.retry_after_ms = UNREACHABLE_RETRY_MS
    return failure


def error_from_failure(failure: Failure) -> OctoStoreError:
    """Rebuild the exception that the server reported, with the server's message."""
    kind = error_kind(failure.code)
    error = kind.raises.__new__(kind.raises)
    # Only the server knows the advice for its own errors, so the message includes it.
    is_from_store = failure.code == kind.raises.code
    error.args = (failure.error if is_from_store else f"{failure.error}. {failure.details}".rstrip(". "),)
    attributes = {name: getattr(failure, name) for name in error_kind(kind.raises.code).carries}
    missing = {name: value for name, value in _DEFAULTS.items() if name in attributes and attributes[name] is None}
    error.__dict__.update(attributes | missing)
    return error


_DEFAULTS = {"field": "request", "reason": "server"}
"""For attributes that the server left out."""
