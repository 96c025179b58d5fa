"""The lines of the append-only log. One transition, one event; heartbeats, progress and checkpoints are not events.

Each type of event has a struct of details that holds everything needed to redo the transition (`evolve.py`), and never
a secret. Payloads and results are stored with the event that carried them, under its `seq`.
"""

from functools import cache
from typing import Any, get_args

import msgspec

from octostore.core.documents import NO_DOCUMENT
from octostore.core.model import HowEnded, Phase, Scope, Status
from octostore.core.moments import Moment, to_datetime, to_moment
from octostore.core.session_keys import SessionKey, id_of, session_key, whose


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an event says beyond its time, type and subject."""


class Enqueued(Details, frozen=True):
    kind: str
    queue: str
    priority: int
    available_at: int
    max_attempts: int
    status: Status
    """`claimed` if the job already had an owner when it was enqueued."""
    has_payload: bool = False
    traceparent: str | None = None


class Claimed(Details, frozen=True):
    owner: str
    attempt: int
    ttl_ms: int
    expires_at: int | None = None
    metadata: msgspec.Raw = NO_DOCUMENT
    lock_delay_ms: int = 0
    is_lock: bool = False
    took_over_from: str | None = None
    """The previous owner, if its claim expired or was taken away."""
    handed_over_by: str | None = None
    """The previous owner, if the claim was handed over with its session."""
    host: str | None = None
    pid: int | None = None
    max_silence_ms: int | None = None
    traceparent: str | None = None


class Stuck(Details, frozen=True):
    """An owner sends heartbeats but has not reported progress since `last_progress_at`. Once per such period."""

    owner: str
    fencing_token: int
    last_progress_at: int
    max_silence_ms: int
    note: str | None = None
    """The owner's last progress note."""


class Ended(Details, frozen=True):
    """A claim has ended; the event's type, one of `HowEnded`, says how."""

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
    handed_over_to: str | None = None
    """The next owner, if the claim's session was handed over; the job is then claimed again at once."""
    # Evidence for an expiry: what was missed, and how late that was noticed.
    ttl_ms: int | None = None
    late_ms: int | None = None
    traceparent: str | None = None


class Cancelled(Details, frozen=True):
    """A job without an owner was cancelled. With an owner, it is an `Ended` with that claim's `fencing_token`."""

    reason: str | None = None
    fencing_token: int | None = None


class StopRequested(Details, frozen=True):
    """The owner was asked to stop. With `cancels`, the job is cancelled when the claim ends, unless it is done."""

    owner: str
    fencing_token: int
    reason: str | None = None
    cancels: bool = False


class StopDelivered(Details, frozen=True):
    """The owner has received the request, for the first time."""

    owner: str
    fencing_token: int
    requested_at: int


class Discarded(Details, frozen=True):
    """A dead job was removed from its queue; its name is free."""

    available_at: int
    reason: str | None = None


class Requeued(Details, frozen=True):
    status: Status
    available_at: int
    attempts: int
    reason: str | None = None


class QueueLimited(Details, frozen=True):
    """The queue's new limit on claimed jobs; and, if that changed, whether it is paused."""

    max_claimed: int | None
    paused: bool | None = None
    reason: str | None = None


class SessionOpened(Details, frozen=True):
    agent: str
    ttl_ms: int
    expires_at: int
    resumed: bool = False
    phase: Phase | None = None
    """The new phase, if it changed; `phase_before` is the previous one, here and below."""
    phase_before: Phase | None = None
    without_lease: bool = False


class SessionSaved(Details, frozen=True):
    context_bytes: int
    agent: str | None = None
    phase: Phase | None = None
    phase_before: Phase | None = None


class SessionHandedOver(Details, frozen=True):
    agent: str
    to_agent: str
    ttl_ms: int
    expires_at: int
    note: str | None = None


class SessionEnded(Details, frozen=True):
    """`session_closed`, `session_expired` or `session_undone`."""

    agent: str
    ended_at: int
    heartbeat_at: int | None = None
    ttl_ms: int | None = None
    late_ms: int | None = None
    phase: Phase | None = None
    phase_before: Phase | None = None


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
    """A backup was restored that ended with event `after`. Numbers in between may have been used meanwhile."""

    after: int


DETAILS: dict[str, type[Details]] = {
    "enqueued": Enqueued,
    "claimed": Claimed,
    "stuck": Stuck,
    **dict.fromkeys(get_args(HowEnded), Ended),
    "cancelled": Cancelled,
    "stop_requested": StopRequested,
    "stop_delivered": StopDelivered,
    "discarded": Discarded,
    "requeued": Requeued,
    "queue_limited": QueueLimited,
    "session_opened": SessionOpened,
    "session_saved": SessionSaved,
    "session_handed_over": SessionHandedOver,
    "session_closed": SessionEnded,
    "session_expired": SessionEnded,
    "session_undone": SessionEnded,
    "token_created": TokenCreated,
    "token_rotated": TokenChanged,
    "token_revoked": TokenChanged,
    "restored": Restored,
}


class LogEntry(msgspec.Struct, frozen=True):
    """An event as stored: `details` is the JSON of its type's struct."""

    seq: int
    at: int
    type: str
    actor: str
    job_id: str | None
    queue: str | None
    session_id: SessionKey | None
    details: bytes


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event as readers see it. `data` holds the details of its type.

    `actor` is the principal that caused the event. `agent` is the owner or agent that it is about, under the name it
    chose. `reason` says why, if a reason is known. `session_principal` is the principal that owns the session
    `session_id`; other principals may use the same id. Events from earlier versions lack this field; their
    session ids are unique.
    """

    seq: int
    at: Moment
    type: str
    actor: str
    job_id: str | None
    queue: str | None
    session_id: str | None
    session_principal: str | None = None
    agent: str | None = None
    reason: str | None = None
    data: dict[str, Any]

    @property
    def owner(self) -> str | None:
        """The owner of the claim that the event is about, if any."""
        return self.data.get("owner")


encode_details = msgspec.json.Encoder().encode


@cache  # created on use: few processes read the log, and fewer read every type
def _decoder(event_type: str) -> msgspec.json.Decoder[Details]:
    return msgspec.json.Decoder(DETAILS[event_type])


def decode_details(entry: LogEntry) -> Details:
    details = _decoder(entry.type).decode(entry.details)
    if isinstance(details, Cancelled) and details.fencing_token is not None:
        return _decoder("released").decode(entry.details)
    return details


def public_event(entry: LogEntry) -> Event:
    """`entry` for readers: moments (every name ending in `_at`) become datetimes."""
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
        session_id=None if entry.session_id is None else id_of(entry.session_id),
        session_principal=None if entry.session_id is None else whose(entry.session_id),
        agent=data.get("owner") or data.get("agent"),
        reason=data.get("reason") or data.get("error") or _missed(entry.type, data),
        data=data,
    )


def _missed(event_type: str, details: dict[str, Any]) -> str | None:
    """The reason for an event that time alone caused."""
    if event_type == "stuck":
        return f"no progress for {details['max_silence_ms'] / 1_000:g} s"
    if "late_ms" not in details or "ttl_ms" not in details:
        return None
    return no_heartbeat(details["ttl_ms"], details["late_ms"])


def no_heartbeat(ttl_ms: int, late_ms: int) -> str:
    """Why a claim or session expired: how long its owner had been silent when that was noticed."""
    return f"no heartbeat for {_seconds(ttl_ms + late_ms)} s, TTL {_seconds(ttl_ms)} s"


def _seconds(ms: int) -> str:
    return f"{ms / 1_000:.3f}".rstrip("0").removesuffix(".")


def stored_event(event: Event) -> LogEntry:
    """The inverse of `public_event`."""
    data = {
        field: to_moment(field, value) if field.endswith("_at") and value is not None else value
        for field, value in event.data.items()
    }
    return LogEntry(
        event.seq,
        to_moment("at", event.at),
        event.type,
        event.actor,
        event.job_id,
        event.queue,
        _key_in(event),
        encode_details(data),
    )


def _key_in(event: Event) -> SessionKey | None:
    if event.session_id is None:
        return None
    if event.session_principal is None:
        return SessionKey(event.session_id)
    return session_key(event.session_principal, event.session_id)
