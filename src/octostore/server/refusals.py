"""Everything that the server itself refuses, before or besides the store: each with its own word."""

import math

from octostore.core.errors import InvalidInput
from octostore.wire.failures import Failure


class Refusal(Exception):
    """An answer with a status that says no. `headers` go with it."""

    def __init__(self, status: int, failure: Failure, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        super().__init__(failure.error)
        self.status = status
        self.failure = failure
        self.headers = headers or []


def refuse(status: int, code: str, error: str, details: str, *, retry_after_ms: int | None = None) -> Refusal:
    return Refusal(status, Failure(error=error, code=code, details=details, retry_after_ms=retry_after_ms))


def retry_after(retry_after_ms: int | None) -> list[tuple[bytes, bytes]]:
    """The header for those who do not read bodies: whole seconds, rounded up."""
    if retry_after_ms is None:
        return []
    return [(b"retry-after", str(math.ceil(retry_after_ms / 1_000)).encode())]


def no_token() -> Refusal:
    refusal = refuse(
        401,
        "authentication_required",
        "this needs a token",
        "Send `Authorization: Bearer TOKEN`. The server's first token is in the file that it named when it started.",
    )
    refusal.headers.append((b"www-authenticate", b"Bearer"))
    return refusal


def bad_token() -> Refusal:
    refusal = refuse(
        401,
        "authentication_failed",
        "this token is not valid here",
        "It may be mistyped, expired, rotated or revoked, or belong to another server. Get a current one.",
    )
    refusal.headers.append((b"www-authenticate", b'Bearer error="invalid_token"'))
    return refusal


def out_of_scope(scope: str) -> Refusal:
    return refuse(403, "not_allowed", f"this needs a token with the scope {scope}", "Ask an operator for such a token.")


def out_of_prefix() -> Refusal:
    return refuse(
        403,
        "not_allowed",
        "this token may not use that name",
        "It is limited to names with a certain prefix; use such a name, or another token.",
    )


def too_fast(retry_after_ms: int) -> Refusal:
    return refuse(
        429,
        "rate_limited",
        "too many requests",
        "Wait, and send fewer: claim with `wait_seconds` instead of polling, bind claims to a session.",
        retry_after_ms=retry_after_ms,
    )


def too_late(problem: str) -> Refusal:
    refusal = refuse(
        408,
        "too_late",
        problem,
        "The request was older than its `X-OctoStore-Deadline-Ms` when its turn came. Send it again if you want it.",
    )
    refusal.failure.reason = "late"
    return refusal


def no_route(path: str) -> Refusal:
    return refuse(404, "no_such_route", f"there is nothing at {path[:100]}", "GET /docs lists what there is.")


def wrong_method(method: str, allowed: list[str]) -> Refusal:
    names = ", ".join(allowed)
    refusal = refuse(405, "method_not_allowed", f"{method[:20]} is not possible here", f"Use {names}.")
    refusal.headers.append((b"allow", names.encode()))
    return refusal


def body_too_large(limit: int) -> Refusal:
    refusal = refuse(
        413,
        "body_too_large",
        f"the body has more than {limit:,} bytes",
        "Send less: keep large things elsewhere and put a reference to them here.",
    )
    refusal.failure.limit = limit
    # The connection is not closed: what is still being sent is read and dropped, or the client would never see this.
    return refusal


def wrong_shape(error: InvalidInput) -> Refusal:
    """A body that has not the fields or types that it should; as opposed to values that are out of bounds."""
    refusal = refuse(422, "invalid_input", str(error), "See /docs for what this call takes; nothing was changed.")
    refusal.failure.field = error.field
    return refusal


def stranger_host(host: str) -> Refusal:
    return refuse(
        421,
        "host_not_allowed",
        f"this server does not answer for the host {host[:100]!r}",
        "Use the address that it listens on, or start it with --allow-host for that name.",
    )


def stranger_origin() -> Refusal:
    return refuse(
        403,
        "origin_not_allowed",
        "web pages of other sites may not use this server",
        "Start it with --allow-origin for a site that may.",
    )


def shutting_down() -> Refusal:
    return refuse(503, "shutting_down", "the server is stopping", "Try again.", retry_after_ms=1_000)


# Before there is a request


def malformed() -> Refusal:
    return refuse(400, "malformed_request", "this is not a valid HTTP request", "Use an HTTP client.")


def too_slow(seconds: float) -> Refusal:
    return refuse(
        408,
        "request_timeout",
        f"the request did not arrive within {seconds:g} seconds",
        "Send it faster; nothing was changed.",
    )


def head_too_large(max_bytes: int, max_headers: int) -> Refusal:
    return refuse(
        431,
        "headers_too_large",
        f"the address and headers have more than {max_bytes:,} bytes, or are more than {max_headers}",
        "Send fewer or shorter ones.",
    )


def too_many_connections() -> Refusal:
    return refuse(
        503,
        "too_many_connections",
        "the server has as many connections as it may have",
        "Use fewer: keep connections open and reuse them, or wait.",
        retry_after_ms=1_000,
    )
