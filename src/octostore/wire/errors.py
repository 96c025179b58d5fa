"""The table of errors: what each code means for HTTP, a shell and the library, and what to do about it."""

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
    """What the library raises for it."""
    status: int
    exit_code: int
    advice: str = ""
    carries: tuple[str, ...] = ()
    """Its attributes, which a failure has by the same names."""


_NAME = "Check the name. For a job, `GET /jobs/{job_id}/similar` lists the closest ones."
_CORRECT = "Correct the request; nothing was changed."
_FEWER = "End something you have, or ask an operator to raise the limit."
_STOP = "Stop working on the job: your writes are refused. `holder` says who owns it now."
_BEARER = "Send `Authorization: Bearer TOKEN`. The server printed the path of its first token when it started."
_CURRENT = "It may be mistyped, expired, rotated or revoked, or belong to another server. Get a valid one."
_ADDRESS = "Use the address the server listens on, or start it with --allow-host NAME."
_LESS = "Send less: store large data elsewhere and send a reference to it."
_PAUSE = "Wait, then send fewer: claim with `wait_seconds` instead of polling, bind claims to a session, use batches."
_LATE = (
    "The request was older than its `X-OctoStore-Deadline-Ms` when its turn came. Send it again if you still want it."
)
_REUSE = "Keep connections open and reuse them, or wait."
_REPORT = "The request may or may not have taken effect. Please report it with its request_id."
_AGAIN = "It expired, was released, or never belonged to this lock. Acquire the lock again."
_OF_HELD = ("owner", "claimed_at", "heartbeat_at", "expires_at", "metadata", "progress")

ERRORS = {
    # Of the store
    "invalid_input": ErrorKind(InvalidInput, 400, 64, _CORRECT, ("field", "limit", "size")),
    "held": ErrorKind(Held, 409, 11, "Wait for it, or ask its owner.", _OF_HELD),
    "done": ErrorKind(AlreadyDone, 409, 10),
    "lease_lost": ErrorKind(LeaseLost, 409, 20, _STOP, ("job_id", "ended", "holder")),
    "conflict": ErrorKind(Conflict, 409, 64, "Check the current state first; nothing was changed.", ("status",)),
    "limit_exceeded": ErrorKind(LimitExceeded, 409, 77, _FEWER, ("status", "limit")),
    "not_allowed": ErrorKind(NotAllowed, 403, 77, "Use a token that may do this."),
    "not_found": ErrorKind(NotFound, 404, 64, _NAME, ("job_id",)),
    "unreachable": ErrorKind(Unreachable, 503, 69, "The state of the job is unknown; try again later.", ("reason",)),
    # Of a server
    "authentication_required": ErrorKind(NotAllowed, 401, 77, _BEARER),
    "authentication_failed": ErrorKind(NotAllowed, 401, 77, _CURRENT),
    "host_not_allowed": ErrorKind(NotAllowed, 421, 77, _ADDRESS),
    "origin_not_allowed": ErrorKind(NotAllowed, 403, 77, "Start the server with --allow-origin to allow a site."),
    "malformed_request": ErrorKind(InvalidInput, 400, 64, "Use an HTTP client."),
    "no_such_route": ErrorKind(InvalidInput, 404, 64, "GET /docs lists every endpoint."),
    "method_not_allowed": ErrorKind(InvalidInput, 405, 64),
    "body_too_large": ErrorKind(InvalidInput, 413, 64, _LESS, ("limit",)),
    "headers_too_large": ErrorKind(InvalidInput, 431, 64, "Send fewer or shorter ones."),
    "rate_limited": ErrorKind(Unreachable, 429, 69, _PAUSE),
    "request_timeout": ErrorKind(Unreachable, 408, 69, "Send it faster; nothing was changed."),
    "too_late": ErrorKind(Unreachable, 408, 69, _LATE, ("reason",)),
    "shutting_down": ErrorKind(Unreachable, 503, 69, "Try again."),
    "too_many_connections": ErrorKind(Unreachable, 503, 69, _REUSE),
    "internal_error": ErrorKind(Unreachable, 500, 70, _REPORT),
    # Of locks, by the words that their clients know
    "invalid_lock_name": ErrorKind(InvalidInput, 400, 64, _CORRECT, ("field",)),
    "invalid_ttl": ErrorKind(InvalidInput, 400, 64, _CORRECT, ("field", "limit")),
    "lock_limit_exceeded": ErrorKind(LimitExceeded, 403, 77, _FEWER, ("limit",)),
    "lease_not_current": ErrorKind(LeaseLost, 404, 20, _AGAIN),
}


def error_kind(code: str) -> ErrorKind:
    """Also for a code that only a newer server knows."""
    return ERRORS.get(code, ErrorKind(InvalidInput, 400, 64))
