"""Hand over a live session: its context and claims go with it, and the previous owner loses its rights."""

from octostore.core.commands import HandOverSession
from octostore.core.decide import needs
from octostore.core.decide.claim import begin_claim
from octostore.core.decide.ending import How, end_claim, remember_session
from octostore.core.decide.lease import same_lease
from octostore.core.decide.rules import decides
from octostore.core.decide.sessions import held_session, may_write
from octostore.core.decide.stopping import ask_next_owner
from octostore.core.documents import written
from octostore.core.events import Claimed, SessionHandedOver
from octostore.core.model import Claim, Job, Session, read_stop_request
from octostore.core.moments import to_datetime
from octostore.core.replies import HandedOverReply
from octostore.core.session_keys import id_of, key_in
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet


@decides(HandOverSession, needs.session_with_claims)
def hand_over_session(ws: WorkingSet, command: HandOverSession, sources: Sources) -> HandedOverReply:
    session = ws.session(key_in(command))
    if session is None or session.expires_at <= ws.now or not _is_repeat(session, command):
        session = held_session(ws, command, sources)
        _hand_over(ws, session, command, sources)
    return HandedOverReply(
        session_id=id_of(session.session_id),
        agent=session.agent,
        expires_at=to_datetime(session.expires_at),
        jobs=[job.job_id for job in ws.claims_of(session.session_id)],
    )


def _is_repeat(session: Session, command: HandOverSession) -> bool:
    """The lease that handed it over may repeat the call, even once the other agent has it, until the session ends."""
    if session.status != "open" or session.giver_lease_id is None or session.agent != command.to_agent:
        return False
    if command.lease_id is None:
        return session.offered and may_write(session, command)
    return same_lease(session.giver_lease_id, command.lease_id)


def _hand_over(ws: WorkingSet, session: Session, command: HandOverSession, sources: Sources) -> None:
    giver_lease_id = session.lease_id
    remember_session(ws, session, "handed_over", ws.now)
    details = SessionHandedOver(
        agent=session.agent,
        to_agent=command.to_agent,
        ttl_ms=session.ttl_ms,
        expires_at=ws.now + session.ttl_ms,
        note=command.note,
    )
    ws.record("session_handed_over", details, actor=command.principal, session_id=session.session_id)
    # Nobody knows this lease; the other agent gets its own when it opens the session.
    session.lease_id = sources.new_lease_id()
    session.request_id = None
    session.giver_lease_id = giver_lease_id
    session.is_replayed, session.save_number = False, None
    for job in ws.claims_of(session.session_id):
        claim = job.claim
        if claim is not None:
            # A request to stop carries over to the next claim; until then, it must not cancel the job.
            asked, claim.stop_request = read_stop_request(claim), None
            # Forget the first owner's lease, so that its late release is not mistaken for a repeat of this one.
            claim.lease_id = ""
            end = How(
                "released",
                ended_at=ws.now,
                note=command.note,
                reason=f"handed over to {session.agent!r}",
                handed_over_to=session.agent,
            )
            end_claim(ws, job, claim, end, actor=command.principal, sources=sources)
            _claim_again(ws, job, claim, session)
            ask_next_owner(ws, job, asked)


def _claim_again(ws: WorkingSet, job: Job, before: Claim, session: Session) -> None:
    """As another claim, so that the first owner's late writes elsewhere have a lower fencing token."""
    details = Claimed(
        owner=session.agent,
        attempt=job.attempts + 1,
        ttl_ms=session.ttl_ms,
        metadata=written(before.metadata),
        lock_delay_ms=before.lock_delay_ms,
        is_lock=before.is_lock,
        handed_over_by=before.owner,
        max_silence_ms=before.max_silence_ms,
        traceparent=before.attempt_traceparent,
    )
    claim = begin_claim(ws, job, details, actor=before.principal, session_id=session.session_id)
    claim.lease_id = session.lease_id
    claim.progress = before.progress
