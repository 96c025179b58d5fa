"""Rows as callers see them: effective state, readable times, no secrets."""

from octostore.core import replies
from octostore.core.beats import is_stuck, late_at, renew_after
from octostore.core.documents import NO_DOCUMENT, written
from octostore.core.model import (
    Attempt,
    Claim,
    Job,
    Progress,
    Queue,
    Session,
    Token,
    read_history,
    read_in_flight,
    read_pause,
    read_stop_request,
)
from octostore.core.moments import to_datetime, to_datetime_or_none
from octostore.core.session_keys import SessionKey, id_of
from octostore.core.working_set import WorkingSet


def expiry_of(ws: WorkingSet, claim: Claim) -> int:
    """When the claim expires without a heartbeat; a bound claim expires with its session."""
    return _session_of(ws, claim).expires_at if claim.expires_at is None else claim.expires_at


def heartbeat_of(ws: WorkingSet, claim: Claim) -> int:
    """The owner's last heartbeat; for a bound claim, its session's keepalives count too."""
    if claim.expires_at is not None:
        return claim.heartbeat_at
    return max(claim.heartbeat_at, _session_of(ws, claim).heartbeat_at)


def late_at_of(ws: WorkingSet, claim: Claim) -> int:
    """When two heartbeats will be missing, its own or its session's."""
    return late_at(expiry_of(ws, claim), ttl_of(ws, claim))


def ttl_of(ws: WorkingSet, claim: Claim) -> int:
    return _session_of(ws, claim).ttl_ms if claim.expires_at is None else claim.ttl_ms


def is_late_claim(ws: WorkingSet, claim: Claim) -> bool:
    return ws.now >= late_at_of(ws, claim)


def _session_of(ws: WorkingSet, claim: Claim) -> Session:
    session = ws.session(claim.session_id or SessionKey(""))
    if session is None:
        raise LookupError("a live claim is bound to a session that does not exist")
    return session


def session_id_of(claim: Claim) -> str | None:
    """By its principal's name for it."""
    return None if claim.session_id is None else id_of(claim.session_id)


def previous(job: Job) -> list[replies.AttemptView]:
    """The ended attempts, newest first."""
    return [attempt_view(attempt) for attempt in reversed(read_history(job))]


def newest_attempt(job: Job) -> Attempt | None:
    """The last attempt anyone knew of."""
    return next((attempt for attempt in reversed(read_history(job)) if attempt.how != "undone"), None)


def attempt_view(attempt: Attempt) -> replies.AttemptView:
    return replies.AttemptView(
        owner=attempt.owner,
        attempt=attempt.attempt,
        fencing_token=attempt.fencing_token,
        claimed_at=to_datetime(attempt.claimed_at),
        ended_at=to_datetime(attempt.ended_at),
        how=attempt.how,
        error=attempt.error,
        note=attempt.note,
        reason=attempt.reason,
        traceparent=attempt.traceparent,
    )


def progress_view(progress: Progress | None) -> replies.ProgressView | None:
    if progress is None:
        return None
    return replies.ProgressView(note=progress.note, percent=progress.percent, at=to_datetime(progress.at))


def owner_view(ws: WorkingSet, job: Job) -> replies.JobOwner | None:
    claim = job.claim
    if claim is None:
        return None
    return replies.JobOwner(
        job_id=job.job_id,
        owner=claim.owner,
        principal=claim.principal,
        raw_metadata=written(claim.metadata),
        claimed_at=to_datetime(claim.claimed_at),
        heartbeat_at=to_datetime(heartbeat_of(ws, claim)),
        expires_at=to_datetime(expiry_of(ws, claim)),
        fencing_token=claim.fencing_token,
        attempt=job.attempts + 1,
        progress=progress_view(claim.progress),
        session_id=session_id_of(claim),
        host=claim.host,
        pid=claim.pid,
        max_silence=to_seconds(claim.max_silence_ms),
        last_progress_at=to_datetime_or_none(claim.last_progress_at),
        stuck=is_stuck(claim, ws.now),
        stop_requested=stop_view(claim),
        traceparent=claim.attempt_traceparent,
    )


def heartbeat_view(ws: WorkingSet, job_id: str, claim: Claim) -> replies.Heartbeat:
    return replies.Heartbeat(
        job_id=job_id,
        fencing_token=claim.fencing_token,
        heartbeat_at=to_datetime(heartbeat_of(ws, claim)),
        expires_at=to_datetime(expiry_of(ws, claim)),
        progress=progress_view(claim.progress),
        late_at=to_datetime(late_at_of(ws, claim)),
        late=is_late_claim(ws, claim),
        stuck=is_stuck(claim, ws.now),
    )


def stop_view(claim: Claim) -> replies.StopView | None:
    asked = read_stop_request(claim)
    if asked is None:
        return None
    return replies.StopView(
        reason=asked.reason,
        requested_at=to_datetime(asked.at),
        requested_by=asked.by,
        cancels=asked.cancels,
        delivered_at=to_datetime_or_none(asked.delivered_at),
    )


def pause_view(queue: Queue | None) -> replies.PauseView | None:
    pause = read_pause(queue)
    return None if pause is None else replies.PauseView(at=to_datetime(pause.at), by=pause.by, reason=pause.reason)


def to_seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1_000


def job_view(ws: WorkingSet, job: Job, *, with_documents: bool = True) -> replies.JobView:
    owner = owner_view(ws, job)
    return replies.JobView(
        job.job_id,
        job.status,
        job.queue,
        job.kind,
        priority=job.priority if job.is_enqueued else None,
        attempts=job.attempts,
        max_attempts=job.max_attempts if job.is_enqueued else None,
        available_at=to_datetime(job.available_at) if job.status in {"free", "queued"} else None,
        created_at=to_datetime_or_none(job.created_at or None),
        claim=owner,
        owner=owner.owner if owner else None,
        last_outcome=job.last_outcome,
        error=job.error,
        note=job.note,
        raw_payload=written(ws.document(job.payload_seq)) if with_documents else NO_DOCUMENT,
        raw_result=written(ws.document(job.result_seq)) if with_documents and job.status == "done" else NO_DOCUMENT,
        raw_checkpoint=written(ws.checkpoints[job.job_id]) if with_documents else NO_DOCUMENT,
        previous=previous(job),
        traceparent=job.traceparent,
    )


def claimed_reply(ws: WorkingSet, job: Job, claim: Claim, *, replayed: bool = False) -> replies.ClaimReply:
    expires_at = expiry_of(ws, claim)
    remaining_ms = expires_at - ws.now
    # Positional, because a call with more than 15 keywords builds a dictionary first, and takes five times as long.
    return replies.ClaimReply(
        "claimed",
        job.job_id,
        job.queue,
        job.kind,
        claim.owner,
        claim.principal,
        written(claim.metadata),
        claim.fencing_token,
        job.attempts + 1,
        to_datetime(claim.claimed_at),
        to_datetime(heartbeat_of(ws, claim)),
        to_datetime(expires_at),
        session_id_of(claim),
        claim.lease_id,
        replayed=replayed,
        ttl=claim.ttl_ms / 1_000,
        remaining_ms=remaining_ms,
        renew_after_ms=renew_after(remaining_ms),
        raw_payload=written(ws.document(job.payload_seq)),
        raw_checkpoint=written(ws.checkpoints[job.job_id]),
        note=job.note,
        previous=previous(job),
        max_silence=to_seconds(claim.max_silence_ms),
        traceparent=job.traceparent,
        attempt_traceparent=claim.attempt_traceparent,
    )


def held_reply(ws: WorkingSet, job: Job, claim: Claim) -> replies.ClaimReply:
    expires_at = expiry_of(ws, claim)
    return replies.ClaimReply(
        status="held",
        job_id=job.job_id,
        queue=job.queue,
        kind=job.kind,
        owner=claim.owner,
        principal=claim.principal,
        raw_metadata=written(claim.metadata),
        fencing_token=claim.fencing_token,
        attempt=job.attempts + 1,
        claimed_at=to_datetime(claim.claimed_at),
        heartbeat_at=to_datetime(heartbeat_of(ws, claim)),
        expires_at=to_datetime(expires_at),
        session_id=session_id_of(claim),
        progress=progress_view(claim.progress),
        retry_after_ms=expires_at - ws.now,
        host=claim.host,
        pid=claim.pid,
        stuck=is_stuck(claim, ws.now),
    )


def delayed_reply(ws: WorkingSet, job: Job, available_at: int) -> replies.ClaimReply:
    queue = None if job.queue is None else ws.queues[job.queue]
    is_due = job.available_at <= ws.now
    return replies.ClaimReply(
        status="delayed",
        job_id=job.job_id,
        queue=job.queue,
        kind=job.kind,
        available_at=to_datetime(available_at),
        retry_after_ms=available_at - ws.now,
        error=job.error,
        previous=previous(job),
        pause=pause_view(queue),
        max_claimed=queue.max_claimed if queue is not None and queue.is_full and is_due else None,
    )


def finished_reply(ws: WorkingSet, job: Job) -> replies.ClaimReply:
    """For a job that is `done` or `dead`."""
    return replies.ClaimReply(
        status="done" if job.status == "done" else "dead",
        job_id=job.job_id,
        queue=job.queue,
        kind=job.kind,
        raw_result=written(ws.document(job.result_seq)) if job.status == "done" else NO_DOCUMENT,
        error=job.error,
        note=job.note,
        previous=previous(job),
    )


def empty_reply(status: replies.QueueStatus, retry_after_ms: int) -> replies.ClaimReply:
    return replies.ClaimReply(
        status="empty",
        job_id=None,
        queue=status.queue,
        available_at=status.available_at,
        retry_after_ms=retry_after_ms,
        all_done=status.all_done,
        queue_status=status,
    )


def session_view(ws: WorkingSet, session: Session, *, with_context: bool = True) -> replies.SessionView:
    return replies.SessionView(
        session_id=id_of(session.session_id),
        agent=session.agent,
        principal=session.principal,
        status=session.status,
        opened_at=to_datetime(session.opened_at),
        heartbeat_at=to_datetime(session.heartbeat_at),
        expires_at=to_datetime(session.expires_at),
        raw_context=written(ws.context(session)) if with_context else NO_DOCUMENT,
        context_seq=session.context_seq,
        jobs=[job.job_id for job in ws.claims_of(session.session_id)],
        phase=session.phase,
        offered=session.offered,
        note=session.note,
        in_flight=list(read_in_flight(session)),
        context_bytes=ws.context_bytes(session),
    )


def opened_reply(
    ws: WorkingSet, session: Session, in_flight: list[replies.InFlight], *, replayed: bool
) -> replies.SessionReply:
    remaining_ms = session.expires_at - ws.now
    return replies.SessionReply(
        session_id=id_of(session.session_id),
        agent=session.agent,
        lease_id=session.lease_id,
        resumed=session.resumed,
        replayed=replayed,
        ttl=session.ttl_ms / 1_000,
        opened_at=to_datetime(session.opened_at),
        expires_at=to_datetime(session.expires_at),
        remaining_ms=remaining_ms,
        renew_after_ms=renew_after(remaining_ms),
        raw_context=written(ws.context(session)),
        context_seq=session.context_seq,
        phase=session.phase,
        note=session.note,
        in_flight=in_flight,
    )


def in_flight_view(ws: WorkingSet, job: Job, session: Session) -> replies.InFlight:
    claim = job.claim
    is_ours = claim is not None and claim.session_id == session.session_id
    return replies.InFlight(
        job_id=job.job_id,
        status=job.status,
        is_ours=is_ours,
        owner=claim.owner if claim else None,
        fencing_token=claim.fencing_token if claim and is_ours else None,
        queue=job.queue,
        kind=job.kind,
        attempts=job.attempts,
        available_at=to_datetime(job.available_at) if job.status in {"free", "queued"} else None,
        raw_payload=written(ws.document(job.payload_seq)),
        raw_checkpoint=written(ws.checkpoints[job.job_id]),
        note=claim.progress.note if claim and is_ours and claim.progress else job.note,
    )


def session_held_reply(ws: WorkingSet, session: Session) -> replies.ClaimReply:
    return replies.ClaimReply(
        status="held",
        job_id=None,
        owner=session.agent,
        principal=session.principal,
        claimed_at=to_datetime(session.opened_at),
        heartbeat_at=to_datetime(session.heartbeat_at),
        expires_at=to_datetime(session.expires_at),
        session_id=id_of(session.session_id),
        retry_after_ms=session.expires_at - ws.now,
    )


def token_view(token: Token) -> replies.TokenView:
    return replies.TokenView(
        token_id=token.token_id,
        name=token.principal,
        scopes=list(token.scopes),
        prefix=token.prefix,
        created_at=to_datetime(token.created_at),
        expires_at=to_datetime_or_none(token.expires_at),
        revoked_at=to_datetime_or_none(token.revoked_at),
    )
