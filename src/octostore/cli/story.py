"""Events and attempts in sentences."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from octostore.cli import words
from octostore.cli.console import Console
from octostore.core.events import Event
from octostore.core.replies import AttemptView


def describe_attempts(attempts: Iterable[AttemptView]) -> list[str]:
    return [_describe_attempt(attempt) for attempt in attempts]


def _describe_attempt(attempt: AttemptView) -> str:
    lasted = words.duration(words.seconds_between(attempt.claimed_at, attempt.ended_at))
    how = _ENDINGS.get(attempt.how, attempt.how)
    said = _said(attempt.error or attempt.reason, attempt.note)
    return f"{words.clock(attempt.ended_at)}  {attempt.owner} {how} after {lasted}{said}"


LATE_MS = 1_000
_ENDINGS = {
    "released": "released it",
    "done": "finished it",
    "failed": "failed",
    "deferred": "deferred it",
    "expired": "disappeared",
    "force_released": "lost it (force-released)",
    "cancelled": "lost it (cancelled)",
    "undone": "disconnected (before it got the claim)",
}


def describe_event(event: Event, console: Console, *, reader: str) -> str:
    """One line of the log. `reader` is the principal who reads it."""
    session = event.session_id and words.session_name(event.session_id, event.session_principal, reader)
    about = event.job_id or session or ""
    return _line(event, f"{console.style(about, 'bold')}  " if about else "")


def describe_job_event(event: Event) -> str:
    """One line of a job's history, without the job's name."""
    return _line(event, "")


def _line(event: Event, about: str) -> str:
    return f"{event.seq:>6}  {event.at:%Y-%m-%d %H:%M:%S}  {about}{sentence(event)}"


def sentence(event: Event) -> str:
    """The event in words, without its time and job."""
    describe = _SENTENCES.get(event.type, _unknown)
    return describe(event, event.data)


def _unknown(event: Event, _data: dict[str, Any]) -> str:
    """A type from a newer server."""
    about = f" ({event.agent})" if event.agent else ""
    return event.type + about + _said(event.reason)


def _said(why: str | None, note: str | None = None) -> str:
    """The reason, and the owner's last note, which may be unrelated."""
    return (f": {words.one_line(why)}" if why else "") + (f" ({words.one_line(note)})" if note else "")


def _claimed(_event: Event, data: dict[str, Any]) -> str:
    attempt = f" (attempt {data['attempt']})" if data["attempt"] > 1 else ""
    if data.get("handed_over_by"):
        return f"{data['owner']} got it from {data['handed_over_by']}, with the session{attempt}"
    if data.get("took_over_from"):
        return f"{data['owner']} took over from {data['took_over_from']}{attempt}"
    return f"{data['owner']} claimed it{attempt}"


def _ended(event: Event, data: dict[str, Any]) -> str:
    if data.get("handed_over_to"):
        return f"{data['owner']} handed it over to {data['handed_over_to']}{_said(None, data.get('note'))}"
    said = _said(data.get("error") or data.get("reason"), data.get("note"))
    return f"{data['owner']} {_ENDINGS[event.type]}{said}{_next_status(data)}"


def _expired(_event: Event, data: dict[str, Any]) -> str:
    note = f" while {words.one_line(data['note'])}" if data.get("note") else ""
    return f"{data['owner']} disappeared{note}{_missed(data)}{_next_status(data)}"


def _stuck(_event: Event, data: dict[str, Any]) -> str:
    since: datetime = data["last_progress_at"]
    limit = words.duration(data["max_silence_ms"] / 1_000)
    said = _said(None, data.get("note"))
    return f"{data['owner']} is stuck: alive, but no progress since {since:%H:%M:%S} (limit {limit}){said}"


def _missed(data: dict[str, Any]) -> str:
    """The evidence for an expiry."""
    heard: datetime | None = data.get("heartbeat_at")
    if heard is None:
        return ""
    ttl = f" (TTL {words.duration(data['ttl_ms'] / 1_000)})" if data.get("ttl_ms") else ""
    late = f"; noticed {words.duration(data['late_ms'] / 1_000)} late" if data.get("late_ms", 0) >= LATE_MS else ""
    return f": no heartbeat since {heard:%H:%M:%S}{ttl}{late}"


def _next_status(data: dict[str, Any]) -> str:
    match data["status"]:
        case "dead":
            attempts = data.get("attempts")
            return "; the job is dead now" + (f", after {words.count(attempts, 'attempt')}" if attempts else "")
        case "queued":
            return "; the job is back in its queue"
        case _:
            return ""


def _by_operator(event: Event, data: dict[str, Any]) -> str:
    taken = " and taken" if event.type == "cancelled" else ""
    from_whom = f"{taken} from {data['owner']}" if data.get("owner") else ""
    return f"{_BY_OPERATORS[event.type]}{from_whom} by {event.actor}{_said(data.get('reason'))}"


def _stop_requested(event: Event, data: dict[str, Any]) -> str:
    then = " (the job will then be cancelled)" if data.get("cancels") else ""
    return f"{event.actor} asked {data['owner']} to stop{then}{_said(data.get('reason'))}"


def _requeued(event: Event, data: dict[str, Any]) -> str:
    used_up = f"; {words.count(data['attempts'], 'attempt')} used up" if data.get("attempts") else ""
    return _by_operator(event, data) + used_up


_BY_OPERATORS = {
    "force_released": "taken away",
    "cancelled": "cancelled",
    "discarded": "discarded",
    "requeued": "requeued",
}


def _queue_limited(event: Event, data: dict[str, Any]) -> str:
    limit, paused = data.get("max_claimed"), data.get("paused")
    if paused is None:
        change = f"{'limit lifted' if limit is None else f'limited to {limit:,} at once'} by {event.actor}"
    else:
        also = "" if limit is None else f", at most {limit:,} claimed at once"
        change = f"{'paused' if paused else 'resumed'} by {event.actor}{also}"
    return f"queue {event.queue}: {change}{_said(data.get('reason'))}"


def _is_by_operator(event: Event) -> bool:
    return event.session_principal not in {None, event.actor}


def _who(event: Event, data: dict[str, Any]) -> str:
    return event.actor if _is_by_operator(event) else str(data["agent"])


def _whose(event: Event, data: dict[str, Any]) -> str:
    return f"{data['agent']}'s" if _is_by_operator(event) else "its"


def _session_saved(_event: Event, data: dict[str, Any]) -> str:
    who = f"{data['agent']} saved its context" if data.get("agent") else "context saved"
    return f"{who} ({data['context_bytes']:,} bytes){_phase(data)}"


def _phase(data: dict[str, Any]) -> str:
    """Where it has changed."""
    before = f"{data['phase_before']} → " if data.get("phase_before") else ""
    return f"; phase {before}{data['phase']}" if data.get("phase") else ""


_SENTENCES: dict[str, Callable[[Event, dict[str, Any]], str]] = {
    "enqueued": lambda event, data: f"enqueued in {event.queue} as {data['kind']}",
    "claimed": _claimed,
    **dict.fromkeys(["released", "done", "failed", "deferred"], _ended),
    "expired": _expired,
    "stuck": _stuck,
    "undone": lambda _, data: (
        f"{data['owner']}'s claim was undone: the owner disconnected before the reply{_next_status(data)}"
    ),
    **dict.fromkeys(_BY_OPERATORS, _by_operator),
    "requeued": _requeued,
    "stop_requested": _stop_requested,
    "stop_delivered": lambda _, data: f"{data['owner']} received the stop request",
    "queue_limited": _queue_limited,
    "session_opened": lambda _, data: (
        f"{data['agent']} {'resumed' if data.get('resumed') else 'opened'} its session{_phase(data)}"
    ),
    "session_saved": _session_saved,
    "session_handed_over": lambda event, data: (
        f"{_who(event, data)} handed {_whose(event, data)} session over to {data['to_agent']}"
        f"{_said(None, data.get('note'))}"
    ),
    "session_closed": lambda event, data: f"{_who(event, data)} closed {_whose(event, data)} session{_phase(data)}",
    "session_expired": lambda _, data: f"{data['agent']} disappeared with its session{_missed(data)}{_phase(data)}",
    "session_undone": lambda _, data: f"{data['agent']}'s session was undone: the agent disconnected before the reply",
    "restored": lambda _, data: f"restored from a backup that ended with event {data['after']}",
    "token_created": lambda event, data: f"{event.actor} created a token for {data['name']}",
    "token_rotated": lambda _, data: f"{data['name']}'s token was rotated",
    "token_revoked": lambda event, data: f"{event.actor} revoked {data['name']}'s token",
}
