"""Undoing claims and sessions whose caller is gone, unless the call was repeated."""

from octostore.core import commands as c
from tests.model.ground import IN_FLIGHT_KEPT
from tests.model.jobs import ended_by
from tests.model.state import Claim, Job, Reply, Session, session_key
from tests.model.tasks import Tasks

NOBODY_WAITED = "the caller had already gone"


class Undoing(Tasks):
    def undo(self, command: c.Undo) -> Reply:
        if command.session_id is not None:
            return Reply("UndoReply", {"undone": self.undo_session(session_key(command), command)})
        job = self.job(command.job_id or "")
        claim = job.claim
        if claim is None or claim.lease != command.lease_id:
            before = ended_by(job, command.lease_id)
            return Reply("UndoReply", {"undone": before is not None and before.how == "undone"})
        is_free = not is_in_use(claim)
        if is_free:
            self.undo_claim(job, command)
        return Reply("UndoReply", {"undone": is_free})

    def undo_claim(self, job: Job, command: c.Undo) -> None:
        claim = job.claim
        self.end(job, "undone", command.principal, ended_at=self.now, reason=NOBODY_WAITED)
        session = self.sessions.get(claim.session_id or "") if claim else None
        if session is not None and session.resumed:
            # In a resumed session, the job is in flight again. A new session never knew of it.
            session.in_flight = [*(name for name in session.in_flight if name != job.name), job.name][-IN_FLIGHT_KEPT:]

    def undo_session(self, name: str, command: c.Undo) -> bool:
        session = self.sessions.get(name)
        if session is None or session.lease != command.lease_id:
            return False
        if session.status != "open":
            # A closed session counts as undone (no document says so).
            return session.status == "closed"
        if session.giver_lease is not None:
            # A hand-over has no gap: the lost reply did not make these claims, so undoing it must not end them.
            return False
        if session.is_replayed or session.heartbeat_at > session.opened_at or session.save_number is not None:
            return False
        if any(is_known(job, session) for job in self.bound_to(name)):
            return False
        for job in self.bound_to(name):
            self.undo_claim(job, command)
        details = {"agent": session.agent, "ended_at": self.now}
        self.record("session_undone", command.principal, details, session_id=name)
        session.status, session.expires_at, session.offered = "closed", self.now, False
        return True


def is_known(job: Job, session: Session) -> bool:
    """Whether someone may rely on the claim: it has its own lease, or is in use."""
    return job.claim is not None and (is_in_use(job.claim) or job.claim.lease != session.lease)


def is_in_use(claim: Claim) -> bool:
    """Returned more than once, or written to since. A checkpoint without a number leaves no trace."""
    return (
        claim.is_replayed or claim.heartbeat_at > claim.claimed_at or bool(claim.numbers) or claim.progress is not None
    )
