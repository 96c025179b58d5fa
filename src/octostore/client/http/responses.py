"""What an HTTP response means: a reply, the store's error, or that there is no reply."""

from typing import Any

import msgspec

from octostore.client.http.calls import OK, HttpCall, event_from
from octostore.core.errors import Unreachable
from octostore.core.events import Event
from octostore.stores.base import TryAgain
from octostore.wire.failures import Failure, error_from_failure

TOO_FAST = 429
NOT_TAKEN = {408, 425, TOO_FAST}
AGAIN = NOT_TAKEN | {500, 502, 503, 504}
"""The statuses after which the same call may succeed; with one of `NOT_TAKEN` nothing has been done yet."""
MAX_DIGITS = 9
_CANNOT_ANSWER = "cannot answer: "

_read_failure = msgspec.json.Decoder(Failure).decode


def read_response(call: HttpCall, where: str, status: int, body: bytes, retry_after: str | None = None) -> Any:
    """Return the reply. Raises the store's error, `TryAgain`, or `Unreachable` if this is not an OctoStore server."""
    if status in OK:
        try:
            return call.read(body)
        except (msgspec.DecodeError, ValueError):
            raise _not_octostore(where, status) from None
    try:
        failure = _read_failure(body)
    except (msgspec.DecodeError, ValueError):
        failure = None
    raise _error_for(where, status, failure, retry_after)


def check_is_stream(where: str, status: int, content_type: str | None) -> None:
    if not (content_type or "").startswith("text/event-stream"):
        raise _not_octostore(where, status)


def read_event(where: str, data: bytes) -> Event:
    try:
        return event_from(data)
    except (msgspec.DecodeError, ValueError):
        raise _not_octostore(where, OK.start) from None


def _error_for(where: str, status: int, failure: Failure | None, retry_after: str | None) -> Exception:
    if status in AGAIN:
        return _again(where, status, failure, retry_after)
    if failure is None or failure.code == "no_such_route":
        return _not_octostore(where, status)
    return error_from_failure(failure)


def _again(where: str, status: int, failure: Failure | None, retry_after: str | None) -> Exception:
    problem = f"HTTP status {status}" if failure is None else failure.error
    reason = "busy" if status == TOO_FAST else (failure and failure.reason) or "server"
    fault = Unreachable(f"the server at {where} {_CANNOT_ANSWER}{problem}", reason=reason)
    if fault.is_lasting:
        return fault
    # Proxies say it only in the header.
    pause_ms = (failure and failure.retry_after_ms) or _milliseconds(retry_after)
    return TryAgain(fault, pause_ms, was_taken=status not in NOT_TAKEN)


def has_answered(error: Unreachable) -> bool:
    """Whether the server, or a proxy in front of it, responded that it cannot answer, and why."""
    return _CANNOT_ANSWER in str(error)


def _milliseconds(retry_after: str | None) -> int:
    """0 if it is not a number of seconds; it may be a date."""
    text = retry_after or ""
    return int(text) * 1_000 if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else 0


def _not_octostore(where: str, status: int) -> Unreachable:
    problem = f"{where} is not an OctoStore server, or its version is not supported (status {status})"
    return Unreachable(f"{problem}; check the URL", reason="server")


def connection_failed(where: str, error: BaseException, *, was_taken: bool = True) -> TryAgain | Unreachable:
    """The exception to raise. A bad certificate stays bad, so that is not retried."""
    refused = getattr(error, "certificate_error", error)  # aiohttp wraps it
    if hasattr(refused, "verify_message"):  # only certificate errors have it, and ssl is slow to import
        return _not_trusted(where, refused.verify_message)
    problem = _reason(error)
    fault = Unreachable(f"cannot communicate with the server at {where}: {problem}", reason="network")
    return TryAgain(fault, was_taken=was_taken)


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"{text}; does the server use plain http://?" if "WRONG_VERSION_NUMBER" in text else text


def _not_trusted(where: str, why: str) -> Unreachable:
    return Unreachable(
        f"the certificate of the server at {where} is not trusted: {why.rstrip('.')}. If your own "
        "certificate authority signed it, set SSL_CERT_FILE to the file with that authority's certificate",
        reason="certificate",
    )


def timed_out(where: str, seconds: float) -> TryAgain:
    return TryAgain(
        Unreachable(f"the server at {where} did not answer within {seconds:g} seconds", reason="network"),
        was_taken=True,
    )
