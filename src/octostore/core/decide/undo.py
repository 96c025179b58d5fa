"""Undo a reply that reached nobody. The store decides, because only it knows who else received it."""

from octostore.core.commands import Undo
from octostore.core.decide import needs
from octostore.core.decide.ending import How, end_claim
from octostore.core.decide.expiry import job_as_of_now, settle_session
from octostore.core.decide.lease import ended_attempt, same_lease
from octostore.core.decide.rules import decides
from octostore.core.events import SessionEnded
from octostore.core.model import Claim, Job, Session
from octostore.core.replies import UndoReply
from octostore.core.session_keys import SessionKey, key_in
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet

NOBODY_WAITED = "the caller had already gone"


@decides(Undo, needs.held_job, needs.session_with_claims)
def undo(ws: WorkingSet, command: Undo, sources: Sources) -> UndoReply:
    if command.session_id is not None:
        return UndoReply(undone=_undo_session(ws, key_in(command), command, sources))
    job = job_as_of_now(ws, command.job_id or "", sources)
    if job.claim is None or not same_lease(job.claim.lease_id, command.lease_id):
        ended = ended_attempt(job, command.lease_id)
        return UndoReply(undone=ended is not None and ended.how == "undone")
    if _is_in_use(job.claim):
        return UndoReply(undone=False)
    _undo_claim(ws, job, job.claim, command, sources)
    return UndoReply(undone=True)


def _undo_claim(ws: WorkingSet, job: Job, claim: Claim, command: Undo, sources: Sources) -> None:
    end = How("undone", ended_at=ws.now, reason=NOBODY_WAITED)
    end_claim(ws, job, claim, end, actor=command.principal, sources=sources)


def _undo_session(ws: WorkingSet, session_id: SessionKey, command: Undo, sources: Sources) -> bool:
    session = ws.session(session_id)
    if session is None or not same_lease(session.lease_id, command.lease_id):
        return False
    settle_session(ws, session, sources)
    if session.status != "open":
        return session.status == "closed"
    jobs = list(ws.claims_of(session_id))
    # A session that was handed over existed before this reply, with claims their owner was working on.
    was_handed_over = session.giver_lease_id is not None
    is_in_use = session.is_replayed or session.heartbeat_at > session.opened_at or session.save_number is not None
    if is_in_use or was_handed_over or any(_is_known(job.claim, session) for job in jobs):
        return False
    for job in jobs:
        if job.claim is not None:
            _undo_claim(ws, job, job.claim, command, sources)
    details = SessionEnded(agent=session.agent, ended_at=ws.now)
    ws.record("session_undone", details, actor=command.principal, session_id=session_id)
    return True


def _is_known(claim: Claim | None, session: Session) -> bool:
    """Whether someone may rely on it: it has its own lease, or is in use."""
    return claim is not None and (_is_in_use(claim) or not same_lease(claim.lease_id, session.lease_id))


def _is_in_use(claim: Claim) -> bool:
    """Whether someone knows of it: it was returned more than once, or written to."""
    has_beaten = claim.heartbeat_at > claim.claimed_at or claim.heartbeat_number is not None
    return claim.is_replayed or has_beaten or claim.progress is not None or claim.checkpoint_number is not None
