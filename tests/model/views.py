"""Replies and views, with the fields of `core/replies.py`, from the model's state."""

from typing import Any

from tests.model.ground import Ground
from tests.model.state import Claim, Fields, Job, Past, Refused, Reply, Session, Token, session_id_of


def past_view(past: Past) -> Fields:
    return {
        "owner": past.owner,
        "attempt": past.attempt,
        "fencing_token": past.token,
        "claimed_at": past.claimed_at,
        "ended_at": past.ended_at,
        "how": past.how,
        "error": past.error,
        "note": past.note,
        "reason": past.reason,
        "traceparent": past.trace,
    }


def previous(job: Job) -> list[Fields]:
    """Newest first."""
    return [past_view(past) for past in reversed(job.past)]


def owner_fields(ground: Ground, job: Job, claim: Claim) -> Fields:
    return {
        "owner": claim.owner,
        "principal": claim.principal,
        "metadata": claim.metadata,
        "claimed_at": claim.claimed_at,
        "heartbeat_at": ground.heartbeat(claim),
        "expires_at": ground.expiry(claim),
        "fencing_token": claim.token,
        "attempt": job.attempts + 1,
        "session_id": session_id_of(claim.session_id),
    }


def owner_view(ground: Ground, job: Job) -> Fields | None:
    if job.claim is None:
        return None
    return {
        "job_id": job.name,
        **activity_fields(ground, job.claim),
        **owner_fields(ground, job, job.claim),
        **max_silence_field(job.claim),
        "stop_requested": job.claim.stop,
        "traceparent": job.claim.trace,
        "last_progress_at": None if job.claim.max_silence_ms is None else job.claim.progress_at,
    }


def heartbeat_view(ground: Ground, name: str, claim: Claim) -> Fields:
    return {
        "job_id": name,
        "fencing_token": claim.token,
        "heartbeat_at": ground.heartbeat(claim),
        "expires_at": ground.expiry(claim),
        "progress": claim.progress,
        "late_at": ground.late_at(claim),
        "late": ground.is_late(claim, ground.now),
        "stuck": ground.is_stuck(claim, ground.now),
    }


def activity_fields(ground: Ground, claim: Claim) -> Fields:
    """What the owner reports, and which process it is."""
    is_stuck = ground.is_stuck(claim, ground.now)
    return {"progress": claim.progress, "stuck": is_stuck, "host": claim.host, "pid": claim.pid}


def max_silence_field(claim: Claim) -> Fields:
    return {"max_silence": None if claim.max_silence_ms is None else claim.max_silence_ms / 1_000}


def job_view(ground: Ground, job: Job, *, with_documents: bool = True) -> Fields:
    owner = owner_view(ground, job)
    is_task = job.queue is not None
    fields = {
        "job_id": job.name,
        "status": job.status,
        "queue": job.queue,
        "kind": job.kind,
        "priority": job.priority if is_task else None,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts if is_task else None,
        "available_at": job.available_at if job.status in {"free", "queued"} else None,
        "created_at": job.created_at,
        "claim": owner,
        "owner": owner["owner"] if owner else None,
        "last_outcome": job.last_outcome,
        "error": job.error,
        "note": job.note,
        "previous": previous(job),
        "is_known": True,
        "traceparent": job.trace,
    }
    if with_documents:
        fields |= {
            "checkpoint": job.checkpoint,
            "payload": job.payload,
            "result": job.result if job.status == "done" else None,
        }
    return fields


def unknown_job_view(name: str) -> Fields:
    nothing = ["queue", "kind", "priority", "max_attempts", "available_at", "created_at", "claim", "owner"]
    nothing += ["last_outcome", "error", "note"]
    return {"job_id": name, "status": "free", "attempts": 0, "is_known": False, **dict.fromkeys(nothing)}


def _about(job: Job, status: str) -> Fields:
    return {"status": status, "job_id": job.name, "queue": job.queue, "kind": job.kind}


def claimed(ground: Ground, job: Job, *, replayed: bool = False) -> Reply:
    claim = job.claim
    assert claim is not None
    left_ms = ground.expiry(claim) - ground.now
    return Reply(
        "ClaimReply",
        {
            **_about(job, "claimed"),
            **owner_fields(ground, job, claim),
            **max_silence_field(claim),
            "lease_id": claim.lease,
            "replayed": replayed,
            "ttl": claim.ttl_ms / 1_000,
            "remaining_ms": left_ms,
            "renew_after_ms": left_ms // 3,
            "payload": job.payload,
            "checkpoint": job.checkpoint,
            "note": job.note,
            "previous": previous(job),
            "traceparent": job.trace,
            "attempt_traceparent": claim.trace,
        },
    )


def held(ground: Ground, job: Job) -> Reply:
    assert job.claim is not None
    fields = {
        **_about(job, "held"),
        **owner_fields(ground, job, job.claim),
        **activity_fields(ground, job.claim),
        "retry_after_ms": ground.expiry(job.claim) - ground.now,
    }
    return Reply("ClaimReply", fields)


def finished(job: Job) -> Reply:
    fields = {
        **_about(job, job.status),
        "result": job.result if job.status == "done" else None,
        "error": job.error,
        "note": job.note,
        "previous": previous(job),
    }
    return Reply("ClaimReply", fields)


def delayed(ground: Ground, job: Job, until: int) -> Reply:
    fields = {
        **_about(job, "delayed"),
        "available_at": until,
        "retry_after_ms": until - ground.now,
        "error": job.error,
        "previous": previous(job),
        "pause": ground.pauses.get(job.queue or ""),
        "max_claimed": ground.limit_reached(job.queue) if job.queue and job.available_at <= ground.now else None,
    }
    return Reply("ClaimReply", fields)


def empty(ground: Ground, status: Fields, retry_at: int) -> Reply:
    shared = {name: status[name] for name in ("queue", "available_at", "all_done")}
    hint = retry_at - ground.now
    return Reply(
        "ClaimReply", {"status": "empty", "job_id": None, "queue_status": status, "retry_after_ms": hint, **shared}
    )


def queue_status(
    ground: Ground, queues: list[str], kinds: tuple[str, ...] | None, prefix: str, counted_to: int
) -> Fields:
    """`kinds` does not restrict the counts of dead and done jobs."""
    here = [job for job in ground.jobs.values() if job.queue in queues and job.name.startswith(prefix)]
    wanted = [job for job in here if kinds is None or job.kind in kinds]
    queued = [job.available_at for job in wanted if job.status == "queued"]
    later = [moment for moment in queued if moment > ground.now]
    due = [moment for moment in queued if moment <= ground.now]
    claimed = [job for job in wanted if job.status == "claimed"]
    limit = ground.limits.get(queues[0]) if len(queues) == 1 else None
    pauses = [ground.pauses[queue] for queue in queues if queue in ground.pauses]
    return {
        "queue": queues[0],
        "all_done": not queued and not claimed,
        "ready": len(due),
        "oldest_due_at": min(due, default=None),
        "later": len(later),
        "available_at": min(later, default=None),
        "claimed": len(claimed),
        "owners": _owners(claimed, queues),
        "dead": sum(job.status == "dead" for job in here),
        "done": sum(job.status == "done" for job in here),
        "max_claimed": limit,
        "counted_to": counted_to,
        "kinds": None if kinds is None else list(kinds),
        "paused": bool(pauses),
        "pause": pauses[0] if pauses else None,
    }


def _owners(claimed: list[Job], queues: list[str]) -> list[str]:
    """Up to five different owners, ordered by queue and job name."""
    in_order = sorted(claimed, key=lambda job: (queues.index(job.queue or ""), job.name))
    return list(dict.fromkeys(job.claim.owner for job in in_order if job.claim))[:5]


def lease_lost(ground: Ground, job: Job, ended: Past | None) -> Refused:
    """With how the lease ended, if the job still knows, and who owns the job now."""
    return Refused(
        "LeaseLost", job_id=job.name, ended=past_view(ended) if ended else None, holder=owner_view(ground, job)
    )


def released(job: Job, past: Past) -> Reply:
    return Reply(
        "ReleaseReply",
        {
            "job_id": job.name,
            "outcome": past.how,
            "status": past.status,
            "attempt": past.attempt,
            "fencing_token": past.token,
            "released_at": past.ended_at,
            "available_at": past.available_at,
            "traceparent": past.trace,
        },
    )


# Sessions


def session_view(ground: Ground, session: Session, *, with_context: bool = True) -> Fields:
    return {
        "session_id": session.id,
        "agent": session.agent,
        "principal": session.principal,
        "status": session.status,
        "opened_at": session.opened_at,
        "heartbeat_at": session.heartbeat_at,
        "expires_at": session.expires_at,
        "context": session.context if with_context else None,
        "context_seq": session.context_seq,
        "jobs": [job.name for job in ground.bound_to(session.name)],
        "phase": session.phase,
        "offered": session.offered,
        "note": session.note,
        "in_flight": list(session.in_flight),
        "context_bytes": session.context_bytes,
    }


def session_times(session: Session) -> Fields:
    return {
        "owner": session.agent,
        "claimed_at": session.opened_at,
        "heartbeat_at": session.heartbeat_at,
        "expires_at": session.expires_at,
    }


def session_held(ground: Ground, session: Session) -> Reply:
    fields = {
        "status": "held",
        "job_id": None,
        "principal": session.principal,
        "session_id": session.id,
        "retry_after_ms": session.expires_at - ground.now,
        **session_times(session),
    }
    return Reply("ClaimReply", fields)


def opened(ground: Ground, session: Session, *, replayed: bool, but: Any = None) -> Reply:
    """`but` is a task that the reply already contains."""
    names = [job.name for job in ground.bound_to(session.name)]
    names += [name for name in session.in_flight if name not in names]
    left_ms = session.expires_at - ground.now
    fields = {
        "session_id": session.id,
        "agent": session.agent,
        "lease_id": session.lease,
        "resumed": session.resumed,
        "replayed": replayed,
        "ttl": session.ttl_ms / 1_000,
        "opened_at": session.opened_at,
        "expires_at": session.expires_at,
        "remaining_ms": left_ms,
        "renew_after_ms": left_ms // 3,
        "context": session.context,
        "context_seq": session.context_seq,
        "phase": session.phase,
        "note": session.note,
        "in_flight": [in_flight(ground.job(name), session) for name in names if name != but],
    }
    return Reply("SessionReply", fields)


def in_flight(job: Job, session: Session) -> Fields:
    claim = job.claim
    is_ours = claim is not None and claim.session_id == session.name
    said = claim.progress["note"] if claim and is_ours and claim.progress else None
    return {
        "job_id": job.name,
        "status": job.status,
        "is_ours": is_ours,
        "owner": claim.owner if claim else None,
        "fencing_token": claim.token if claim and is_ours else None,
        "queue": job.queue,
        "kind": job.kind,
        "attempts": job.attempts,
        "available_at": job.available_at if job.status in {"free", "queued"} else None,
        "payload": job.payload,
        "checkpoint": job.checkpoint,
        "note": said if claim and is_ours and claim.progress else job.note,
    }


def token_view(token: Token) -> Fields:
    return {
        "token_id": token.name,
        "name": token.principal,
        "scopes": list(token.scopes),
        "prefix": token.prefix,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    }
