"""What happened, in sentences."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from octostore.cli import words
from octostore.core.events import Event
from octostore.core.replies import AttemptView


def told_attempts(attempts: Iterable[AttemptView]) -> list[str]:
    """Newest first, as they come."""
    return [_told_attempt(attempt) for attempt in attempts]


def _told_attempt(attempt: AttemptView) -> str:
    lasted = words.duration(words.seconds_between(attempt.claimed_at, attempt.ended_at))
    how = _ENDINGS.get(attempt.how, attempt.how)
    why = attempt.error or attempt.note or attempt.reason
    said = f": {words.gist(why)}" if why else ""
    return f"{words.clock(attempt.ended_at)}  {attempt.owner} {how} after {lasted}{said}"


LATE_MS = 1_000
_ENDINGS = {
    "released": "released it",
    "done": "finished it",
    "failed": "failed",
    "deferred": "put it off",
    "expired": "disappeared",
    "force_released": "had it taken away",
}


def sentence(event: Event) -> str:
    """What an event says, without its time and its job."""
    tell = _SENTENCES.get(event.type)
    return tell(event, event.data) if tell else event.type


def _claimed(_event: Event, data: dict[str, Any]) -> str:
    attempt = f" (attempt {data['attempt']})" if data["attempt"] > 1 else ""
    before = data.get("took_over_from")
    if before is None:
        return f"{data['owner']} claimed it{attempt}"
    return f"{data['owner']} took over from {before}{attempt}"


def _ended(event: Event, data: dict[str, Any]) -> str:
    why = data.get("error") or data.get("reason")
    said = f": {words.gist(why)}" if why else ""
    # What it was doing last, where it did not say anything else in the end.
    note = f" ({words.gist(data['note'])})" if data.get("note") else ""
    return f"{data['owner']} {_ENDINGS[event.type]}{said}{note}{_next_status(data)}"


def _expired(_event: Event, data: dict[str, Any]) -> str:
    """The evidence: what was missed."""
    heard: datetime = data["heartbeat_at"]
    missed = f"no heartbeat since {heard:%H:%M:%S}"
    if data.get("ttl_ms"):
        missed += f" (TTL {words.duration(data['ttl_ms'] / 1_000)})"
    note = f" while {words.gist(data['note'])}" if data.get("note") else ""
    late = f"; noticed {words.duration(data['late_ms'] / 1_000)} later" if data.get("late_ms", 0) >= LATE_MS else ""
    return f"{data['owner']} disappeared{note}: {missed}{late}{_next_status(data)}"


def _force_released(event: Event, data: dict[str, Any]) -> str:
    why = f": {data['reason']}" if data.get("reason") else ""
    return f"taken away from {data['owner']} by {event.actor}{why}"


def _next_status(data: dict[str, Any]) -> str:
    match data["status"]:
        case "dead":
            return "; it is dead now, out of attempts"
        case "queued":
            return "; it waits in its queue again"
        case _:
            return ""


def _enqueued(event: Event, data: dict[str, Any]) -> str:
    return f"enqueued in {event.queue} as {data['kind']}"


def _reason(data: dict[str, Any]) -> str:
    return f": {data['reason']}" if data.get("reason") else ""


def _limited(event: Event, data: dict[str, Any]) -> str:
    limit = data.get("max_claimed")
    return f"queue {event.queue}: " + ("no limit any more" if limit is None else f"at most {limit} at once")


_SENTENCES: dict[str, Callable[[Event, dict[str, Any]], str]] = {
    "enqueued": _enqueued,
    "claimed": _claimed,
    "released": _ended,
    "done": _ended,
    "failed": _ended,
    "deferred": _ended,
    "expired": _expired,
    "force_released": _force_released,
    "cancelled": lambda event, data: f"cancelled by {event.actor}{_reason(data)}",
    "requeued": lambda event, data: f"requeued by {event.actor}{_reason(data)}",
    "queue_limited": _limited,
    "session_opened": lambda _, data: f"{data['agent']} {'resumed' if data.get('resumed') else 'opened'} its session",
    "session_saved": lambda _, data: f"context saved ({data['context_bytes']:,} bytes)",
    "session_closed": lambda _, data: f"{data['agent']} closed its session",
    "session_expired": lambda _, data: f"{data['agent']} disappeared, and its session with it",
    "restored": lambda _, data: f"restored from a backup that ended with event {data['after']}",
    "token_created": lambda event, data: f"{event.actor} made a token for {data['name']}",
    "token_rotated": lambda _, data: f"the token of {data['name']} was renewed",
    "token_revoked": lambda event, data: f"{event.actor} revoked a token of {data['name']}",
}
