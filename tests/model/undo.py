"""Taking back what was answered to nobody: only the store knows who else was told."""

from octostore.core import commands as c
from tests.model.jobs import ended_by
from tests.model.state import Job, Session, Told
from tests.model.tasks import Tasks

NOBODY_WAITED = "nobody was waiting for the answer any more"


class Undoing(Tasks):
    def undo(self, command: c.Undo) -> Told:
        if command.session_id is not None:
            return Told("UndoReply", {"undone": self.undo_session(command.session_id, command)})
        job = self.job(command.job_id or "")
        claim = job.claim
        if claim is None or claim.lease != command.lease_id:
            before = ended_by(job, command.lease_id)
            return Told("UndoReply", {"undone": before is not None and before.how == "undone"})
        if not claim.is_replayed:
            self.undo_claim(job, command)
        return Told("UndoReply", {"undone": not claim.is_replayed})

    def undo_claim(self, job: Job, command: c.Undo) -> None:
        self.end(job, "undone", command.principal, ended_at=self.now, reason=NOBODY_WAITED)

    def undo_session(self, name: str, command: c.Undo) -> bool:
        session = self.sessions.get(name)
        if session is None or session.lease != command.lease_id:
            return False
        if session.status != "open":
            # One that was closed in order is not told from one that was undone (no document says so).
            return session.status == "closed"
        if session.giver_lease is not None:
            # "There is an owner at every moment": what was handed over was not made by the answer that got lost.
            return False
        if session.is_replayed or any(is_known(job, session) for job in self.bound_to(name)):
            return False
        for job in self.bound_to(name):
            self.undo_claim(job, command)
        details = {"agent": session.agent, "ended_at": self.now}
        self.record("session_undone", command.principal, details, session_id=name)
        session.status, session.expires_at, session.offered = "closed", self.now, False
        return True


def is_known(job: Job, session: Session) -> bool:
    """Whether somebody else may rely on the claim: it has a lease of its own, or was told more than once."""
    return job.claim is not None and (job.claim.is_replayed or job.claim.lease != session.lease)
