"""What an HTTP answer means: a reply, an error of the store's, or that there is no answer."""

from typing import Any

import msgspec

from octostore.client.http.calls import HttpCall
from octostore.core.errors import InvalidInput, NotAllowed, OctoStoreError, Unreachable
from octostore.wire.failures import Failure, error_of

OK = range(200, 300)
TOO_FAST = 429
AGAIN = {408, 425, TOO_FAST, 500, 502, 503, 504}
"""The statuses after which the same call may succeed. All our calls can be repeated, whatever became of them."""
TELLS = {"invalid_input", "held", "lease_lost", "conflict", "limit_exceeded", "not_found", "not_allowed"}
LASTING_REASONS = {"corrupt", "newer_schema", "not_a_database", "read_only"}

_read_failure = msgspec.json.Decoder(Failure).decode


class TryAgain(Exception):  # never leaves the client
    """There was no answer, but there may be one soon: after `pause_ms`, where the server says so."""

    def __init__(self, fault: Unreachable, pause_ms: int = 0) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.pause_ms = pause_ms


def read_answer(call: HttpCall, where: str, status: int, body: bytes) -> Any:
    """The reply; raises what the store said, or `TryAgain`, or `Unreachable` if this is no OctoStore at all."""
    if status in OK:
        try:
            return call.read(body)
        except (msgspec.DecodeError, ValueError):
            raise _no_octostore(where, status) from None
    try:
        failure = _read_failure(body)
    except (msgspec.DecodeError, ValueError):
        failure = None
    raise _error_for(call, where, status, failure)


def _error_for(call: HttpCall, where: str, status: int, failure: Failure | None) -> Exception:
    if status in AGAIN:
        return _again(where, status, failure)
    if failure is None or failure.code == "no_such_route":
        return _no_octostore(where, status)
    return _told(call, failure)


def _again(where: str, status: int, failure: Failure | None) -> Exception:
    if failure is None:
        problem, reason, pause_ms = f"it answered with status {status}", "server", 0
    else:
        reason = "busy" if status == TOO_FAST else failure.reason or "server"
        problem, pause_ms = failure.error, failure.retry_after_ms or 0
    fault = Unreachable(f"the server at {where} cannot answer: {problem}", reason=reason)
    return fault if reason in LASTING_REASONS else TryAgain(fault, pause_ms)


def _told(call: HttpCall, failure: Failure) -> OctoStoreError:
    if failure.code in TELLS:
        return error_of(failure, call.subject)
    if failure.code.startswith(("authentication_", "host_", "origin_")):
        return NotAllowed(f"{failure.error}. {failure.details}")
    return InvalidInput(failure.field or "request", f"was refused: {failure.error}", limit=failure.limit)


def _no_octostore(where: str, status: int) -> Unreachable:
    problem = f"what answers at {where} is no OctoStore server of a version that this client knows (status {status})"
    return Unreachable(f"{problem}; check the URL", reason="server")


def not_reached(where: str, error: BaseException) -> TryAgain:
    problem = str(error) or type(error).__name__
    return TryAgain(Unreachable(f"the server at {where} cannot be reached: {problem}", reason="network"))


def no_answer_in_time(where: str, seconds: float) -> TryAgain:
    return TryAgain(Unreachable(f"the server at {where} did not answer within {seconds:g} seconds", reason="network"))
