"""The table of errors: what each code is to HTTP, to a shell and to the library, and what can be done about it."""

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
_FEWER = "End something that you have, or ask an operator for a higher limit."
_STOP = "Stop working on the job: what you write now is refused. `holder` says who has it."
_BEARER = "Send `Authorization: Bearer TOKEN`. The server's first token is in the file that it named when it started."
_CURRENT = "It may be mistyped, expired, rotated or revoked, or belong to another server. Get a current one."
_ADDRESS = "Use the address that it listens on, or start it with --allow-host for that name."
_LESS = "Send less: keep large things elsewhere and put a reference to them here."
_PAUSE = "Wait, and send fewer: claim with `wait_seconds` instead of polling, bind claims to a session, use batches."
_LATE = "The request was older than its `X-OctoStore-Deadline-Ms` when its turn came. Send it again if you want it."
_REUSE = "Use fewer: keep connections open and reuse them, or wait."
_REPORT = "It may or may not have done what you asked for. Please report the request_id."
_AGAIN = "It has expired, was released, or was never this lock's. Acquire the lock again."
_OF_HELD = ("owner", "claimed_at", "heartbeat_at", "expires_at", "metadata", "progress")

ERRORS = {
    # Of the store
    "invalid_input": ErrorKind(InvalidInput, 400, 64, _CORRECT, ("field", "limit", "size")),
    "held": ErrorKind(Held, 409, 11, "Wait until it ends, or ask its owner.", _OF_HELD),
    "done": ErrorKind(AlreadyDone, 409, 10),
    "lease_lost": ErrorKind(LeaseLost, 409, 20, _STOP, ("job_id", "ended", "holder")),
    "conflict": ErrorKind(Conflict, 409, 64, "Look first at how things stand; nothing was changed.", ("status",)),
    "limit_exceeded": ErrorKind(LimitExceeded, 409, 77, _FEWER, ("status", "limit")),
    "not_allowed": ErrorKind(NotAllowed, 403, 77, "Use a token that may do this."),
    "not_found": ErrorKind(NotFound, 404, 64, _NAME, ("job_id",)),
    "unreachable": ErrorKind(Unreachable, 503, 69, "Nothing is known about the job; try again later.", ("reason",)),
    # Of a server
    "authentication_required": ErrorKind(NotAllowed, 401, 77, _BEARER),
    "authentication_failed": ErrorKind(NotAllowed, 401, 77, _CURRENT),
    "host_not_allowed": ErrorKind(NotAllowed, 421, 77, _ADDRESS),
    "origin_not_allowed": ErrorKind(NotAllowed, 403, 77, "Start it with --allow-origin for a site that may."),
    "malformed_request": ErrorKind(InvalidInput, 400, 64, "Use an HTTP client."),
    "no_such_route": ErrorKind(InvalidInput, 404, 64, "GET /docs lists what there is."),
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


def kind_of(code: str) -> ErrorKind:
    """Also of a code that only a newer server knows."""
    return ERRORS.get(code, ErrorKind(InvalidInput, 400, 64))
