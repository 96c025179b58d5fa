"""Error responses: the server's own, and those made from the store's errors."""

import math

from octostore.core.errors import InvalidInput, OctoStoreError, Unreachable
from octostore.core.permit import TokenOver
from octostore.wire.errors import ERRORS
from octostore.wire.failures import Failure, failure_from_error

LOG_IN = "Log in with a token, or run `octostore ui`."


class Refusal(Exception):
    """An error response."""

    def __init__(self, status: int, failure: Failure, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        super().__init__(failure.error)
        self.status = status
        self.failure = failure
        self.headers = headers or []


def refuse(code: str, error: str, *, status: int | None = None, **more: object) -> Refusal:
    """`more` are further fields of the failure. By default, status and advice are those of the code."""
    kind = ERRORS[code]
    failure = Failure(error=error, code=code, details=kind.advice)
    for name, value in more.items():
        setattr(failure, name, value)
    return Refusal(status or kind.status, failure)


def refusal_for(error: Exception) -> Refusal:
    """The error response for any exception."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, TokenOver):
        return bad_token()
    if isinstance(error, Unreachable) and error.reason == "late":
        return too_late(str(error))
    if isinstance(error, OctoStoreError) and error.code in ERRORS:
        return Refusal(ERRORS[error.code].status, failure_from_error(error))
    return refuse("internal_error", "internal server error; this is a bug")


def retry_after(retry_after_ms: int | None) -> list[tuple[bytes, bytes]]:
    """The `Retry-After` header: whole seconds, rounded up."""
    if retry_after_ms is None:
        return []
    return [(b"retry-after", str(math.ceil(retry_after_ms / 1_000)).encode())]


def no_token() -> Refusal:
    return _unauthorized("authentication_required", "a token is required", b"Bearer")


def not_bearer() -> Refusal:
    advice = ERRORS["authentication_required"].advice
    return _unauthorized("authentication_failed", "the Authorization header must be: Bearer TOKEN", details=advice)


def bad_token() -> Refusal:
    return _unauthorized("authentication_failed", "this token is not valid")


def no_login() -> Refusal:
    return _unauthorized("authentication_required", "you are not logged in", b"Bearer", details=LOG_IN)


def login_expired() -> Refusal:
    return _unauthorized("authentication_failed", "this login is no longer valid", details=LOG_IN)


def bad_code() -> Refusal:
    advice = f"A link works once, within a minute, on the server that made it. {LOG_IN}"
    return _unauthorized("authentication_failed", "this login link is no longer valid", details=advice)


def _unauthorized(
    code: str, error: str, challenge: bytes = b'Bearer error="invalid_token"', *, details: str | None = None
) -> Refusal:
    refusal = refuse(code, error)
    refusal.failure.details = details or refusal.failure.details
    refusal.headers.append((b"www-authenticate", challenge))
    return refusal


def missing_scope(scope: str) -> Refusal:
    problem = f"this needs a token with the {scope} scope"
    return refuse("not_allowed", problem, details="Ask an operator for such a token.")


def name_not_allowed(prefix: str) -> Refusal:
    problem = f"this token may only use job names that begin with {prefix!r}"
    return refuse("not_allowed", problem, details="Use such a name, or another token.")


def prefix_limited() -> Refusal:
    problem = "this call affects all jobs, and this token is limited to a name prefix"
    return refuse("not_allowed", problem, details="Use a token without a prefix.")


def too_fast(retry_after_ms: int) -> Refusal:
    return refuse("rate_limited", "too many requests", retry_after_ms=retry_after_ms)


def too_late(problem: str) -> Refusal:
    return refuse("too_late", problem, reason="late")


def no_route(path: str, meant: str | None = None) -> Refusal:
    """`meant` is the same path with the slashes of a name encoded, if that is an endpoint."""
    refusal = refuse("no_such_route", f"no such endpoint: {path[:100]}")
    if meant is not None:
        refusal.failure.details = f"In a name, write / as %2F: use {meant[:200]}."
    return refusal


def wrong_method(method: str, allowed: list[str]) -> Refusal:
    names = ", ".join(allowed)
    refusal = refuse("method_not_allowed", f"{method[:20]} is not allowed here", details=f"Use {' or '.join(allowed)}.")
    refusal.headers.append((b"allow", names.encode()))
    return refusal


def body_too_large(limit: int) -> Refusal:
    # The connection stays open, and the rest of the body is read and dropped: otherwise the client would not see this.
    return refuse("body_too_large", f"the body is larger than {limit:,} bytes", limit=limit)


def wrong_shape(error: InvalidInput) -> Refusal:
    """Wrong fields or types, as opposed to values out of range."""
    advice = "See /docs for the fields of this call; nothing was changed."
    return refuse("invalid_input", str(error), status=422, details=advice, field=error.field)


def too_many_streams(limit: int) -> Refusal:
    problem = f"you already have {limit:,} event streams open, the maximum for a principal (--max-streams)"
    advice = "Close one, share one stream among several readers, or ask an operator to raise the limit."
    return refuse("limit_exceeded", problem, details=advice, limit=limit)


def host_not_allowed(host: str) -> Refusal:
    return refuse("host_not_allowed", f"the host {host[:100]!r} is not allowed")


def origin_not_allowed() -> Refusal:
    return refuse("origin_not_allowed", "web pages from this origin may not use this server")


def not_from_page() -> Refusal:
    advice = (
        "Other programs send a token with each call, and need no login. A proxy must pass the Host header on unchanged."
    )
    return refuse("origin_not_allowed", "only the live page may call this", details=advice)


def shutting_down() -> Refusal:
    return refuse("shutting_down", "the server is stopping", retry_after_ms=1_000)


# Before a request is complete


def malformed() -> Refusal:
    return refuse("malformed_request", "this is not a valid HTTP request")


def hash_in_target() -> Refusal:
    """The parser would drop everything after the #, and the request would be about another name."""
    advice = "Write # as %23; nothing was changed."
    return refuse("malformed_request", "the URL contains #", details=advice)


def upgrade_with_body() -> Refusal:
    advice = "Send it as plain HTTP/1.1, without `Upgrade`; nothing was changed."
    return refuse("malformed_request", "a request with a body cannot be an upgrade", details=advice)


def too_slow(seconds: float) -> Refusal:
    return refuse("request_timeout", f"the request did not arrive within {seconds:g} seconds")


def head_too_large(max_bytes: int, max_headers: int) -> Refusal:
    problem = f"the URL and headers are larger than {max_bytes:,} bytes, or there are more than {max_headers} headers"
    return refuse("headers_too_large", problem)


def too_many_connections() -> Refusal:
    return refuse("too_many_connections", "the server has reached its connection limit", retry_after_ms=1_000)


def too_many_from_address(limit: int) -> Refusal:
    problem = f"your address already has {limit:,} connections open, the maximum for one address"
    return refuse("too_many_connections", problem, retry_after_ms=1_000, limit=limit)
