"""What each field may contain. A name means the same in every command and question, and is checked the same way."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, TypeAlias, get_args

import msgspec

from octostore.core import limits
from octostore.core.errors import InvalidInput
from octostore.core.limits import (
    check_bytes,
    check_count,
    check_line,
    check_range,
    check_seconds,
    check_size,
    check_text,
    check_whole,
)
from octostore.core.model import RESERVED, Outcome, Phase, Scope
from octostore.core.names import check_job_id, check_name, check_prefix
from octostore.core.traceparent import check_traceparent

DIGEST_BYTES = 32
OUTCOMES = get_args(Outcome)
Check: TypeAlias = Callable[[str, Any], None]
"""Called with the field's name and value."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Raises `InvalidInput` if it is built with a field that is out of bounds."""

    CHECKS: ClassVar[dict[str, Check]] = {}
    """A class's own checks, for fields that have no general check or mean something else in this class."""

    def __post_init__(self) -> None:
        for name, default, check in _checks(type(self)):
            value = getattr(self, name)
            if value is not default:
                check(name, value)


@cache
def _checks(kind: type[Checked]) -> list[tuple[str, Any, Check]]:
    """Defaults are always within bounds, and need no check."""
    known = dict(CHECKS)
    for base in reversed(kind.__mro__):
        known |= vars(base).get("CHECKS", {})
    fields = kind.__struct_fields__
    defaults = [msgspec.NODEFAULT] * (len(fields) - len(kind.__struct_defaults__)) + [*kind.__struct_defaults__]
    return [(name, default, known[name]) for name, default in zip(fields, defaults, strict=True) if name in known]


def check_token_name(field: str, name: str) -> None:
    check_line(field, name, limits.TEXT_BYTES)
    if name in RESERVED:
        raise InvalidInput(field, f"must not be one of {', '.join(sorted(RESERVED))}: these names are reserved")
    if "[" in name:
        raise InvalidInput(field, "must not contain [, which marks the prefix of a limited principal")


def check_word(field: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise InvalidInput(field, f"is {word!r}; it must be one of {', '.join(known)}")


def _check_flag(field: str, value: bool) -> None:
    if not isinstance(value, bool):
        raise InvalidInput(field, f"must be true or false, not {type(value).__name__}")


def _check_lease(field: str, lease_id: str | None) -> None:
    if lease_id is None:
        raise InvalidInput(field, "is None: the claim it comes from did not succeed; check the reply's `status`")
    check_line(field, lease_id, limits.LEASE_ID_BYTES)


def _each(check: Check, most: int) -> Check:
    """For a list of up to `most` names."""

    def check_each(field: str, names: tuple[str, ...]) -> None:
        check_count(field, len(names), most, "names")
        for name in names:
            check(field, name)

    return check_each


def _check_digest(field: str, digest: bytes) -> None:
    if not isinstance(digest, bytes) or len(digest) != DIGEST_BYTES:
        raise InvalidInput(field, "must be the SHA-256 of a token: 32 bytes, or 64 hexadecimal digits over HTTP")


def _check_scopes(field: str, scopes: tuple[Scope, ...]) -> None:
    if not scopes or len(set(scopes)) != len(scopes) or not set(scopes) <= set(get_args(Scope)):
        raise InvalidInput(field, f"must be one or more of {', '.join(get_args(Scope))}, each at most once")


def against(check: Callable[[str, Any, Any], None], limit: Any) -> Check:
    return lambda field, value: check(field, value, limit)


def between(check: Callable[[str, Any, int, int], None], low: int, high: int) -> Check:
    return lambda field, value: check(field, value, low, high)


check_session_id = against(check_name, limits.SESSION_ID_BYTES)
"""The id of one of the caller's own sessions."""


def check_session_name(field: str, name: str) -> None:
    """Anyone's session: its id, or `principal/id`."""
    whose, slash, session_id = name.rpartition("/") if isinstance(name, str) else ("", "", name)
    check_session_id(field, session_id)
    if slash:
        check_line(field, whose, limits.PRINCIPAL_BYTES)


CHECKS: dict[str, Check] = {
    # Names
    "job_id": check_job_id,
    "job_ids": _each(check_job_id, limits.HEARTBEATS_MAX),
    "session_id": check_session_name,
    "queue": check_name,
    "queues": _each(check_name, limits.TASK_QUEUES_MAX),
    "kind": check_name,
    "kinds": _each(check_name, limits.KINDS_MAX),
    "prefix": check_prefix,
    "token_id": check_name,
    "name": check_token_name,
    # Texts
    "owner": against(check_line, limits.TEXT_BYTES),
    "agent": against(check_line, limits.TEXT_BYTES),
    "to_agent": against(check_line, limits.TEXT_BYTES),
    "holder": against(check_line, limits.TEXT_BYTES),
    "host": against(check_line, limits.TEXT_BYTES),
    "lease_id": _check_lease,
    "request_id": against(check_line, limits.REQUEST_ID_BYTES),
    "reason": against(check_text, limits.TEXT_BYTES),
    "note": against(check_size, limits.NOTE_BYTES),
    "error": against(check_size, limits.ERROR_BYTES),
    "outcome": against(check_word, OUTCOMES),
    "phase": against(check_word, get_args(Phase)),
    "digest": _check_digest,
    "traceparent": check_traceparent,
    "scopes": _check_scopes,
    "paused": _check_flag,
    # Documents
    "metadata": against(check_bytes, limits.METADATA_BYTES),
    "data": lambda _, data: check_bytes("checkpoint", data, limits.CHECKPOINT_BYTES),
    "result": against(check_bytes, limits.RESULT_BYTES),
    "payload": against(check_bytes, limits.PAYLOAD_BYTES),
    "context": against(check_bytes, limits.CONTEXT_BYTES),
    # Times
    "ttl": between(check_seconds, limits.TTL_MIN_MS, limits.TTL_MAX_MS),
    "max_silence": between(check_seconds, limits.TTL_MIN_MS, limits.TTL_MAX_MS),
    "lock_delay": between(check_seconds, 0, limits.LOCK_DELAY_MAX_MS),
    "retry_after": between(check_seconds, 0, limits.RETRY_AFTER_MAX_MS),
    "expires_in": between(check_seconds, 1_000, limits.TOKEN_LIFE_MAX_MS),
    "run_at": between(check_whole, 0, limits.RUN_AT_MAX_MS),
    "delay": between(check_seconds, 0, limits.DELAY_MAX_MS),
    # Other numbers
    "percent": between(check_range, 0, 100),
    "number": between(check_whole, 1, limits.JSON_INTEGER_MAX),
    "fencing_token": between(check_whole, 1, limits.JSON_INTEGER_MAX),
    "pid": between(check_whole, 1, limits.PID_MAX),
    "priority": between(check_whole, limits.PRIORITY_MIN, limits.PRIORITY_MAX),
    "max_attempts": between(check_whole, 1, limits.MAX_ATTEMPTS_MAX),
    "max_claimed": between(check_whole, 1, limits.QUEUE_LIMIT_MAX),
    "limit": between(check_whole, 1, limits.PAGE_MAX),
    "after": between(check_whole, 0, limits.SEQ_MAX),
}
