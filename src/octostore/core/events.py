"""The lines of the append-only log. One transition, one event; heartbeats, progress and checkpoints are none.

Each kind of event has a struct of details that holds everything needed to redo the transition (`evolve.py`), and never
a secret. Documents (payload, result, session context) are kept beside the event that brought them, under its `seq`.
"""

from typing import Any, get_args

import msgspec

from octostore.core.model import HowEnded, Scope, Status
from octostore.core.moments import Moment, to_datetime


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an event says beyond when, what, and to whom."""


class Enqueued(Details, frozen=True):
    kind: str
    queue: str
    priority: int
    available_at: int
    max_attempts: int
    status: Status
    """`claimed` where somebody was working on the job already when it was enqueued."""
    has_payload: bool = False


NO_METADATA = msgspec.Raw(b"null")


class Claimed(Details, frozen=True):
    owner: str
    attempt: int
    ttl_ms: int
    expires_at: int | None = None
    metadata: msgspec.Raw = NO_METADATA
    lock_delay_ms: int = 0
    is_lock: bool = False
    took_over_from: str | None = None
    """The last owner, where its claim expired or was taken away."""


class Ended(Details, frozen=True):
    """A claim is over: `released`, `done`, `failed`, `deferred`, `expired` or `force_released` (the event's type)."""

    owner: str
    fencing_token: int
    attempt: int
    claimed_at: int
    heartbeat_at: int
    status: Status
    available_at: int
    attempts: int
    ended_at: int
    error: str | None = None
    note: str | None = None
    reason: str | None = None
    has_result: bool = False
    # The evidence for an expiry: what was missed, and how late it was noticed.
    ttl_ms: int | None = None
    late_ms: int | None = None


class Cancelled(Details, frozen=True):
    reason: str | None = None


class Requeued(Details, frozen=True):
    status: Status
    available_at: int
    attempts: int
    reason: str | None = None


class QueueLimited(Details, frozen=True):
    max_claimed: int | None


class SessionOpened(Details, frozen=True):
    agent: str
    ttl_ms: int
    expires_at: int
    resumed: bool = False


class SessionSaved(Details, frozen=True):
    context_bytes: int


class SessionEnded(Details, frozen=True):
    """`session_closed` or `session_expired`."""

    agent: str
    ended_at: int
    heartbeat_at: int | None = None
    ttl_ms: int | None = None
    late_ms: int | None = None


class TokenCreated(Details, frozen=True):
    token_id: str
    name: str
    scopes: tuple[Scope, ...]
    prefix: str = ""
    expires_at: int | None = None


class TokenChanged(Details, frozen=True):
    """`token_rotated` or `token_revoked`."""

    token_id: str
    name: str


class Restored(Details, frozen=True):
    """A backup was restored, which ended with the event `after`. Numbers in between may have been given out since."""

    after: int


DETAILS: dict[str, type[Details]] = {
    "enqueued": Enqueued,
    "claimed": Claimed,
    **dict.fromkeys(get_args(HowEnded), Ended),
    "cancelled": Cancelled,
    "requeued": Requeued,
    "queue_limited": QueueLimited,
    "session_opened": SessionOpened,
    "session_saved": SessionSaved,
    "session_closed": SessionEnded,
    "session_expired": SessionEnded,
    "token_created": TokenCreated,
    "token_rotated": TokenChanged,
    "token_revoked": TokenChanged,
    "restored": Restored,
}


class LogEntry(msgspec.Struct, frozen=True):
    """An event as it is stored: `details` is the JSON of its type's struct."""

    seq: int
    at: int
    type: str
    actor: str
    job_id: str | None
    queue: str | None
    session_id: str | None
    details: bytes


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is read. `actor` is the principal that caused it; `data` holds the details of its type."""

    seq: int
    at: Moment
    type: str
    actor: str
    job_id: str | None
    queue: str | None
    session_id: str | None
    data: dict[str, Any]

    @property
    def owner(self) -> str | None:
        return self.data.get("owner")


encode_details = msgspec.json.Encoder().encode
_decoders = {name: msgspec.json.Decoder(struct) for name, struct in DETAILS.items()}


def decode_details(entry: LogEntry) -> Details:
    return _decoders[entry.type].decode(entry.details)


def public_event(entry: LogEntry) -> Event:
    """`entry` for readers: moments (every name that ends in `_at`) as datetimes."""
    data: dict[str, Any] = msgspec.json.decode(entry.details)
    for field, value in data.items():
        if field.endswith("_at") and value is not None:
            data[field] = to_datetime(value)
    return Event(
        seq=entry.seq,
        at=to_datetime(entry.at),
        type=entry.type,
        actor=entry.actor,
        job_id=entry.job_id,
        queue=entry.queue,
        session_id=entry.session_id,
        data=data,
    )
