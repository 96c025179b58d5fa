"""Expiry: an expired lease has no owner, immediately. The next write or sweep records it."""

from octostore.core.commands import Probe, Recover
from octostore.core.decide import needs
from octostore.core.decide.ending import How, end_claim, remember_session
from octostore.core.decide.rules import decides
from octostore.core.events import SessionEnded
from octostore.core.model import SYSTEM, Claim, Job, Session
from octostore.core.moments import to_datetime
from octostore.core.replies import ProbeReply, RecoverReply, Recovery
from octostore.core.sources import Sources
from octostore.core.views import expiry_of, heartbeat_of, session_id_of
from octostore.core.working_set import WorkingSet


def job_as_of_now(ws: WorkingSet, job_id: str, sources: Sources) -> Job:
    """The job as of now: if its lease has expired, that is recorded first."""
    job = ws.job(job_id)
    if job.claim is not None and expiry_of(ws, job.claim) <= ws.now:
        _expire(ws, job, job.claim, sources)
    return job


def settle_session(ws: WorkingSet, session: Session, sources: Sources) -> None:
    """A session as of now: first its bound claims expire, then, if these were all, the session itself."""
    if session.status != "open" or session.expires_at > ws.now:
        return
    # The oldest claim first, as in a sweep: reads and the log list what was in flight in the same order.
    for _, job_id in sorted((j.claim.fencing_token, j.job_id) for j in ws.claims_of(session.session_id) if j.claim):
        job_as_of_now(ws, job_id, sources)
    if session.session_id in ws.sessions_with_all_claims:
        details = SessionEnded(
            agent=session.agent,
            ended_at=session.expires_at,
            heartbeat_at=session.heartbeat_at,
            ttl_ms=session.ttl_ms,
            late_ms=ws.now - session.expires_at,
        )
        remember_session(ws, session, "expired", session.expires_at)
        ws.record("session_expired", details, actor=SYSTEM, session_id=session.session_id)


def sweep(ws: WorkingSet, sources: Sources) -> None:
    """Record every expiry in the working set, in the order in which they happened.

    A store calls this once, before the commands of a batch.
    """
    expired = []
    for job in ws.jobs.values():
        if job is not None and job.claim is not None:
            expires_at = expiry_of(ws, job.claim)
            if expires_at <= ws.now:
                expired.append((expires_at, job.claim.fencing_token, job.job_id))
    for _, _, job_id in sorted(expired):
        job_as_of_now(ws, job_id, sources)
    ended = [(s.expires_at, s.session_id, s) for s in ws.sessions.values() if s is not None and s.expires_at <= ws.now]
    for _, _, session in sorted(ended, key=lambda row: row[:2]):
        settle_session(ws, session, sources)


@decides(Recover, needs.all_expired)
def recover(ws: WorkingSet, _command: Recover, _sources: Sources) -> RecoverReply:
    """By now the expired claims are in the working set, and the sweep has just recorded them."""
    return RecoverReply(recovered=list(ws.recovered), is_complete=ws.has_all_expired)


@decides(Probe)
def probe(ws: WorkingSet, _command: Probe, _sources: Sources) -> ProbeReply:
    ws.is_probed = True
    return ProbeReply(seq=ws.seq, at=to_datetime(ws.now))


def _expire(ws: WorkingSet, job: Job, claim: Claim, sources: Sources) -> None:
    expired_at, heartbeat_at = expiry_of(ws, claim), heartbeat_of(ws, claim)
    end_claim(ws, job, claim, How("expired", ended_at=expired_at), actor=SYSTEM, sources=sources)
    ws.recovered.append(
        Recovery(
            job_id=job.job_id,
            owner=claim.owner,
            fencing_token=claim.fencing_token,
            session_id=session_id_of(claim),
            claimed_at=to_datetime(claim.claimed_at),
            heartbeat_at=to_datetime(heartbeat_at),
            ttl=claim.ttl_ms / 1_000,
            expired_at=to_datetime(expired_at),
            late_ms=ws.now - expired_at,
            status=job.status,
            available_at=to_datetime(job.available_at),
        )
    )
