"""What each event does to the rows.

This is the only code that changes them, both when a command is decided and when the log is replayed: that is why
replaying the log reproduces the stored state. Heartbeat times, progress, checkpoints and contexts are not in events,
and `lease_id`, `request_id` and a token's `digest` are secrets; only these are set elsewhere.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from octostore.core.documents import NO_DOCUMENT
from octostore.core.events import (
    Cancelled,
    Claimed,
    Details,
    Discarded,
    Ended,
    Enqueued,
    LogEntry,
    QueueLimited,
    Requeued,
    SessionEnded,
    SessionHandedOver,
    SessionOpened,
    SessionSaved,
    StopDelivered,
    StopRequested,
    Stuck,
    TokenChanged,
    TokenCreated,
)
from octostore.core.limits import IN_FLIGHT_KEPT, PREVIOUS_KEPT
from octostore.core.model import (
    LOCAL,
    Attempt,
    Claim,
    HowEnded,
    Job,
    Pause,
    Queue,
    Session,
    StopRequest,
    Token,
    read_history,
    read_in_flight,
    read_stop_request,
)
from octostore.core.session_keys import SessionKey

if TYPE_CHECKING:
    from octostore.core.working_set import WorkingSet

_encode = msgspec.json.Encoder().encode


def evolve(ws: "WorkingSet", entry: LogEntry, details: Details) -> None:
    if entry.job_id is not None:
        job = ws.job(entry.job_id)
        counted_for = _counted_for(job)
        _JOB_CHANGES[entry.type](job, entry, details)
        ws.touch_job(job)
        if counted_for != _counted_for(job):
            _count_queued(ws, counted_for, _counted_for(job))
        if job.status == "done" or entry.type == "discarded":
            # The next run of a finished job starts from scratch.
            ws.set_checkpoint(job.job_id, None)
        if entry.session_id is not None and entry.type in {"claimed", "expired", "undone"}:
            _change_in_flight(ws, entry.session_id, job.job_id, entry.type)
    elif entry.session_id is not None:
        _change_session(ws, entry, details)
    elif isinstance(details, QueueLimited) and entry.queue is not None:
        _change_queue(ws, entry.queue, entry, details)
    elif isinstance(details, TokenCreated | TokenChanged):
        _change_token(ws, entry, details)


def _counted_for(job: Job) -> str | None:
    """The principal whose queued job this is. Local callers have no limit, and are not counted."""
    return job.enqueued_by if job.status == "queued" and job.enqueued_by != LOCAL else None


def _count_queued(ws: "WorkingSet", before: str | None, after: str | None) -> None:
    if before is not None:
        ws.count_queued(before, -1)
    if after is not None:
        ws.count_queued(after, 1)


def _enqueued(job: Job, entry: LogEntry, details: Enqueued) -> None:
    job.queue = details.queue
    job.kind = details.kind
    job.priority = details.priority
    job.max_attempts = details.max_attempts
    job.enqueued_seq = entry.seq
    job.enqueued_by = entry.actor
    job.payload_seq = entry.seq if details.has_payload else None
    job.traceparent = details.traceparent
    job.status = details.status
    job.available_at = details.available_at
    job.attempts = 0
    if job.claim is not None:
        job.claim.was_done = False  # there is new work, even if the claim is undone


def _claimed(job: Job, entry: LogEntry, details: Claimed) -> None:
    was_done = job.status == "done"
    job.status = "claimed"
    job.attempts = details.attempt - 1
    # Positional, because a call with more than 15 keywords builds a dictionary first.
    job.claim = Claim(
        details.owner,
        entry.actor,
        entry.seq,
        details.ttl_ms,
        details.lock_delay_ms,
        entry.at,
        entry.at,
        details.expires_at,
        entry.session_id,
        None if details.metadata == NO_DOCUMENT else bytes(details.metadata),
        is_lock=details.is_lock,
        was_done=was_done,
        host=details.host,
        pid=details.pid,
        max_silence_ms=details.max_silence_ms,
        last_progress_at=None if details.max_silence_ms is None else entry.at,
        attempt_traceparent=details.traceparent,
    )


def _stuck(job: Job, entry: LogEntry, _details: Stuck) -> None:
    _live(job, entry).stuck_at = entry.at


def _ended(job: Job, entry: LogEntry, details: Ended) -> None:
    attempt = Attempt(
        owner=details.owner,
        fencing_token=details.fencing_token,
        attempt=details.attempt,
        claimed_at=details.claimed_at,
        ended_at=details.ended_at,
        how=entry.type,  # type: ignore[arg-type]  # `Ended` is the struct of exactly these types
        status=details.status,
        available_at=details.available_at,
        error=details.error,
        note=details.note,
        reason=details.reason,
        traceparent=details.traceparent,
        lease_id=job.claim.lease_id if job.claim else "",
    )
    job.history = _encode(_remembered([*read_history(job), attempt]))
    job.claim = None
    job.status = details.status
    job.available_at = details.available_at
    job.attempts = details.attempts
    if entry.type == "undone" or (details.status == "done" and entry.type != "done"):
        return  # as if it had never been claimed; a done job also stays done under a lock
    job.last_outcome = attempt.how
    job.error = details.error
    # Keep the last note until the job is done: an owner that dies silently leaves its predecessor's.
    job.note = details.note or (None if entry.type == "done" else job.note)
    if entry.type == "done":
        job.result_seq = entry.seq if details.has_result else None


def _remembered(attempts: list[Attempt]) -> list[Attempt]:
    """The last attempts. Undone ones are dropped first, so that callers who come and go do not push out the others."""
    while len(attempts) > PREVIOUS_KEPT:
        undone = (number for number, attempt in enumerate(attempts[:-1]) if attempt.how == "undone")
        del attempts[next(undone, 0)]
    return attempts


def _cancelled(job: Job, entry: LogEntry, details: Cancelled | Ended) -> None:
    if isinstance(details, Ended):
        _ended(job, entry, details)
    job.status = "dead"
    job.last_outcome = "cancelled"
    job.error = details.reason


def _stop_requested(job: Job, entry: LogEntry, details: StopRequested) -> None:
    _live(job, entry).stop_request = _encode(StopRequest(entry.at, entry.actor, details.reason, details.cancels))


def _stop_delivered(job: Job, entry: LogEntry, _details: StopDelivered) -> None:
    claim = _live(job, entry)
    request = read_stop_request(claim)
    if request is not None:
        claim.stop_request = _encode(msgspec.structs.replace(request, delivered_at=entry.at))


def _live(job: Job, entry: LogEntry) -> Claim:
    if job.claim is None:
        raise LookupError(f"event {entry.seq} is about an owner of {job.job_id!r}, which has none")
    return job.claim


def _discarded(job: Job, _entry: LogEntry, details: Discarded) -> None:
    job.status = "free"
    job.available_at = details.available_at
    job.attempts = 0
    job.last_outcome = "discarded"
    job.error = details.reason
    job.queue = job.kind = job.payload_seq = job.enqueued_by = job.traceparent = None
    job.priority = job.max_attempts = job.enqueued_seq = 0


def _requeued(job: Job, _entry: LogEntry, details: Requeued) -> None:
    job.status = details.status
    job.available_at = details.available_at
    job.attempts = details.attempts


_JOB_CHANGES: dict[str, Callable[[Job, LogEntry, Any], None]] = {
    "enqueued": _enqueued,
    "claimed": _claimed,
    "stuck": _stuck,
    **dict.fromkeys(get_args(HowEnded), _ended),
    "cancelled": _cancelled,
    "stop_requested": _stop_requested,
    "stop_delivered": _stop_delivered,
    "discarded": _discarded,
    "requeued": _requeued,
}


def _change_queue(ws: "WorkingSet", name: str, entry: LogEntry, details: QueueLimited) -> None:
    queue = ws.queues[name] or Queue(name)
    queue.max_claimed = details.max_claimed
    if details.paused is not None:
        queue.pause = _encode(Pause(entry.at, entry.actor, details.reason)) if details.paused else None
    ws.queues[name] = ws.changed_queues[name] = queue


def _change_session(ws: "WorkingSet", entry: LogEntry, details: Details) -> None:
    session_id = entry.session_id or SessionKey("")
    session = ws.session(session_id)
    was_alive = session is not None and session.status == "open" and session.expires_at > ws.now
    if isinstance(details, SessionOpened):
        session = ws.sessions[session_id] = Session(
            session_id=session_id,
            agent=details.agent,
            principal=entry.actor,
            status="open",
            ttl_ms=details.ttl_ms,
            opened_at=entry.at,
            heartbeat_at=entry.at,
            expires_at=details.expires_at,
            resumed=details.resumed,
            without_lease=details.without_lease,
            **(_what_stays(session) if session else {}),
        )
    if session is None:
        raise LookupError(f"event {entry.seq} is about a session that no event opened")
    if isinstance(details, SessionOpened | SessionSaved | SessionEnded):
        session.phase = details.phase or session.phase
    if isinstance(details, SessionSaved):
        session.context_seq = entry.seq
        ws.context_sizes[session_id] = details.context_bytes
    elif isinstance(details, SessionHandedOver):
        _hand_over(session, entry, details)
    elif isinstance(details, SessionEnded):
        session.status = "expired" if entry.type == "session_expired" else "closed"
        session.expires_at = details.ended_at
        session.offered = False
        if entry.type == "session_closed":
            session.note, session.in_flight = None, _encode(())
    ws.touch_session(session)
    ws.count_session(session.principal, (session.status == "open") - was_alive)


def _what_stays(before: Session) -> dict[str, Any]:
    return {
        "context_seq": before.context_seq,
        "phase": before.phase,
        "note": before.note,
        "in_flight": before.in_flight,
    }


def _hand_over(session: Session, entry: LogEntry, details: SessionHandedOver) -> None:
    session.agent = details.to_agent
    session.offered = True
    session.note = details.note
    session.heartbeat_at = entry.at
    session.expires_at = details.expires_at


def _change_in_flight(ws: "WorkingSet", session_id: SessionKey, job_id: str, event_type: str) -> None:
    session = ws.session(session_id)
    if session is None:
        raise LookupError(f"the claim on {job_id!r} is bound to a session that no event opened")
    before = read_in_flight(session)
    # A new session does not miss what it never knew it had; what a resumed one got back is in flight again.
    is_lost = event_type == "expired" or (event_type == "undone" and session.resumed)
    others = tuple(name for name in before if name != job_id)
    after = (*others, job_id)[-IN_FLIGHT_KEPT:] if is_lost else others
    if after != before:
        session.in_flight = _encode(after)
        ws.touch_session(session)


def _change_token(ws: "WorkingSet", entry: LogEntry, details: TokenCreated | TokenChanged) -> None:
    if isinstance(details, TokenCreated):
        token = Token(
            token_id=details.token_id,
            principal=details.name,
            scopes=details.scopes,
            prefix=details.prefix,
            created_at=entry.at,
            expires_at=details.expires_at,
        )
    else:
        known = ws.token(details.token_id)
        if known is None:
            raise LookupError(f"event {entry.seq} is about a token that no event created")
        token = known
    if entry.type == "token_revoked":
        token.revoked_at = entry.at
    ws.touch_token(token)
