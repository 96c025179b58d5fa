"""Every error code: its HTTP status, its exit code, the exception the library raises, and what to do about it."""

from typing import NamedTuple

from octostore.core.errors import (
    AlreadyDone,
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


class ErrorKind(NamedTuple):
    raises: type[OctoStoreError]
    """The exception the library raises."""
    status: int
    exit_code: int
    advice: str = ""
    carries: tuple[str, ...] = ()
    """Attributes of the exception. `Failure` has fields of the same names."""


_NAME = "Check the name. For a job, `GET /jobs/{job_id}/similar` lists similar names."
_CORRECT = "Correct the request; nothing was changed."
_FEWER = "Release or finish something first, or ask an operator to raise the limit."
_STOP = "Stop working on the job: your writes are refused. `holder` says who owns it now."
_BEARER = "Send `Authorization: Bearer TOKEN`. At startup, the server prints where its first token is."
_CURRENT = "The token may be mistyped, expired, rotated, revoked, or for another server. Get a valid one."
_ADDRESS = "Use the address the server listens on, or start it with --allow-host NAME."
_LESS = "Store large data elsewhere and send a reference to it."
_PAUSE = "Slow down: claim with `wait_seconds` instead of polling, bind claims to a session, or use batches."
_LATE = "The deadline in `X-OctoStore-Deadline-Ms` passed before the request ran. Send it again if you still need it."
_REUSE = "Reuse open connections, or try again later."
_REPORT = "The request may or may not have taken effect. Please report the bug, with the request_id."
_AGAIN = "The lease expired, was released, or never belonged to this lock. Acquire the lock again."
_OF_HELD = ("owner", "claimed_at", "heartbeat_at", "expires_at", "metadata", "progress")

ERRORS = {
    # From the store
    "invalid_input": ErrorKind(InvalidInput, 400, 64, _CORRECT, ("field", "limit", "size")),
    "held": ErrorKind(Held, 409, 11, "Wait, or ask the owner.", _OF_HELD),
    "done": ErrorKind(AlreadyDone, 409, 10, "Use the job's result, or requeue the job to run it again."),
    "lease_lost": ErrorKind(LeaseLost, 409, 20, _STOP, ("job_id", "ended", "holder")),
    "conflict": ErrorKind(Conflict, 409, 64, "Check the current state; nothing was changed.", ("status",)),
    "limit_exceeded": ErrorKind(LimitExceeded, 409, 77, _FEWER, ("status", "limit")),
    "not_allowed": ErrorKind(NotAllowed, 403, 77, "Use a token that may do this."),
    "not_found": ErrorKind(NotFound, 404, 64, _NAME, ("job_id",)),
    "unreachable": ErrorKind(Unreachable, 503, 69, "The job's state is unknown; try again later.", ("reason",)),
    # From a server
    "authentication_required": ErrorKind(NotAllowed, 401, 77, _BEARER),
    "authentication_failed": ErrorKind(NotAllowed, 401, 77, _CURRENT),
    "host_not_allowed": ErrorKind(NotAllowed, 421, 77, _ADDRESS),
    "origin_not_allowed": ErrorKind(NotAllowed, 403, 77, "Start the server with --allow-origin to allow a site."),
    "malformed_request": ErrorKind(InvalidInput, 400, 64, "Use a standard HTTP client."),
    "no_such_route": ErrorKind(InvalidInput, 404, 64, "`GET /docs` lists every endpoint."),
    "method_not_allowed": ErrorKind(InvalidInput, 405, 64),
    "body_too_large": ErrorKind(InvalidInput, 413, 64, _LESS, ("limit",)),
    "headers_too_large": ErrorKind(InvalidInput, 431, 64, "Send fewer or shorter headers, or a shorter URL."),
    "rate_limited": ErrorKind(Unreachable, 429, 69, _PAUSE),
    "request_timeout": ErrorKind(Unreachable, 408, 69, "Send the request faster; nothing was changed."),
    "too_late": ErrorKind(Unreachable, 408, 69, _LATE, ("reason",)),
    "shutting_down": ErrorKind(Unreachable, 503, 69, "Try again in a moment."),
    "too_many_connections": ErrorKind(Unreachable, 503, 69, _REUSE),
    "internal_error": ErrorKind(Unreachable, 500, 70, _REPORT),
    # From the lock routes, under the codes that existing lock clients know
    "invalid_lock_name": ErrorKind(InvalidInput, 400, 64, _CORRECT, ("field",)),
    "invalid_ttl": ErrorKind(InvalidInput, 400, 64, _CORRECT, ("field", "limit")),
    "lock_limit_exceeded": ErrorKind(LimitExceeded, 403, 77, _FEWER, ("limit",)),
    "lease_not_current": ErrorKind(LeaseLost, 404, 20, _AGAIN),
}


def error_kind(code: str) -> ErrorKind:
    """A code this version does not know, from a newer server, counts as invalid input."""
    return ERRORS.get(code, ErrorKind(InvalidInput, 400, 64))
