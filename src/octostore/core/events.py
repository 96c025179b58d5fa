"""The lines of the append-only log. One transition, one event; heartbeats, progress and checkpoints are none.

Each kind of event has a struct of details that holds everything needed to redo the transition (`evolve.py`), and never
a secret. Payloads and results are kept beside the event that brought them, under its `seq`.
"""

from functools import cache
from typing import Any, get_args

import msgspec

from octostore.core.documents import NO_DOCUMENT
from octostore.core.model import HowEnded, Phase, Scope, Status
from octostore.core.moments import Moment, to_datetime, to_moment
from octostore.core.session_keys import SessionKey, id_of, session_key, whose


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
    """The last owner, where its claim expired or was taken away."""
    handed_over_by: str | None = None
    """The last owner, where it handed its session over, and the claim with it."""
    host: str | None = None
    pid: int | None = None
    max_silence_ms: int | None = None
    traceparent: str | None = None


class Stuck(Details, frozen=True):
    """An owner heartbeats, and has not reported progress since `last_progress_at`. Once for each such stretch."""

    owner: str
    fencing_token: int
    last_progress_at: int
    max_silence_ms: int
    note: str | None = None
    """What it said last."""


class Ended(Details, frozen=True):
    """A claim is over; how is the event's type: one of `HowEnded`."""

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
    """Who has the job next, by the hand-over of its session: `status` is only that of the moment in between."""
    # The evidence for an expiry: what was missed, and how late it was noticed.
    ttl_ms: int | None = None
    late_ms: int | None = None
    traceparent: str | None = None


class Cancelled(Details, frozen=True):
    """A job that nobody had. One that somebody had is `Ended`, and has the `fencing_token` of that claim."""

    reason: str | None = None
    fencing_token: int | None = None


class StopRequested(Details, frozen=True):
    """The owner is to stop. With `cancels`, the job is cancelled when the claim ends, unless it is done then."""

    owner: str
    fencing_token: int
    reason: str | None = None
    cancels: bool = False


class StopDelivered(Details, frozen=True):
    """The owner was told, for the first time."""

    owner: str
    fencing_token: int
    requested_at: int


class Discarded(Details, frozen=True):
    """A dead job is no longer one of its queue; its name is free."""

    available_at: int
    reason: str | None = None


class Requeued(Details, frozen=True):
    status: Status
    available_at: int
    attempts: int
    reason: str | None = None


class QueueLimited(Details, frozen=True):
    """How many jobs of a queue may be claimed at once from now on; and, where that changes, whether it is paused."""

    max_claimed: int | None
    paused: bool | None = None
    reason: str | None = None


class SessionOpened(Details, frozen=True):
    agent: str
    ttl_ms: int
    expires_at: int
    resumed: bool = False
    phase: Phase | None = None
    """Here and below: what it is doing from now on, where that changes, and what it was doing until now."""
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
    """A backup was restored, which ended with the event `after`. Numbers in between may have been given out since."""

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
    """An event as it is stored: `details` is the JSON of its type's struct."""

    seq: int
    at: int
    type: str
    actor: str
    job_id: str | None
    queue: str | None
    session_id: SessionKey | None
    details: bytes


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is read. `data` holds the details of its type.

    `actor` is the principal that caused it, `agent` the owner or agent whom it is about, by the name that it gives
    itself. `reason` says why, where there is a why. `session_principal` is whose session `session_id` is: others may
    have one of that id. Events of earlier versions do not say; their ids are nobody else's.
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
        return self.data.get("owner")


encode_details = msgspec.json.Encoder().encode


@cache  # made where it is used: few processes read the log, and fewer all kinds of events
def _decoder(event_type: str) -> msgspec.json.Decoder[Details]:
    return msgspec.json.Decoder(DETAILS[event_type])


def decode_details(entry: LogEntry) -> Details:
    details = _decoder(entry.type).decode(entry.details)
    if isinstance(details, Cancelled) and details.fencing_token is not None:
        return _decoder("released").decode(entry.details)
    return details


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
        session_id=None if entry.session_id is None else id_of(entry.session_id),
        session_principal=None if entry.session_id is None else whose(entry.session_id),
        agent=data.get("owner") or data.get("agent"),
        reason=data.get("reason") or data.get("error") or _missed(entry.type, data),
        data=data,
    )


def _missed(event_type: str, details: dict[str, Any]) -> str | None:
    """What time alone has done."""
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
    """What `public_event` was made from."""
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
