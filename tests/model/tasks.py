"""Tasks of sessions: a session is acquired with one task, and freed with it (docs/decisions/0022)."""

from octostore.core import commands as c
from tests.model import told
from tests.model.sessions import Sessions, is_offered_to, is_same_request
from tests.model.state import Job, Refused, Session, Told, named_in


class Tasks(Sessions):
    def claim_task(self, command: c.ClaimTask) -> Told:
        if command.lease_id is not None:
            return self.claim_in_open_session(command)
        session = self.own_session(command)
        is_open = session is not None and session.status == "open"
        its_own = [e for e in self.ended if e.session_id == named_in(command)]
        if session is not None and is_open and is_same_request(session, command):
            if self.task_at_hand(command) is None:
                self.check_not_ended(command, its_own)
            self.note_replay(session)
            return self.task_within(session, command, replayed=True)
        self.check_not_ended(command, its_own)
        if session is not None and is_open and not is_offered_to(session, command.owner):
            return told.session_held(self, session)
        if self.task_at_hand(command) is None:
            if self.first_task(command) is None:
                return self.nothing_to_do(command)
            self.check_count(command)
        # "Taking a task makes a session `planning` unless it was in the middle of something."
        in_the_middle = session is not None and session.phase in {"planning", "executing"}
        opened = self.begin_session(command, command.owner, None if in_the_middle else "planning")
        return self.task_within(opened, command, replayed=False)

    def claim_in_open_session(self, command: c.ClaimTask) -> Told:
        """ "With the lease of a session that you have open, the task is claimed within it." """
        session = self.session_of(command)
        at_hand = self.any_task(command)
        if at_hand is not None and at_hand.claim is not None and is_same_request(at_hand.claim, command):
            return self.replay(at_hand, at_hand.claim)
        self.check_not_ended(command, [e for e in self.ended if e.session_id == session.name])
        if at_hand is not None:
            return told.held(self, at_hand)
        first = self.first_task(command)
        return self.nothing_to_do(command) if first is None else self.grant(first, command)

    def task_within(self, session: Session, command: c.ClaimTask, *, replayed: bool) -> Told:
        at_hand = self.task_at_hand(command)
        if at_hand is not None and at_hand.claim is not None:
            reply = self.replay(at_hand, at_hand.claim) if replayed else told.claimed(self, at_hand)
        else:
            first = self.first_task(command)
            if first is None:
                return self.nothing_to_do(command)
            reply = self.grant(first, command)
        opened = told.opened(self, session, replayed=replayed, but=reply.fields["job_id"])
        return Told("ClaimReply", {**reply.fields, "session": opened.fields})

    def task_at_hand(self, command: c.ClaimTask) -> Job | None:
        return next((job for job in self.bound_to(named_in(command)) if job.queue in command.queues), None)

    def first_task(self, command: c.ClaimTask) -> Job | None:
        """What the session lost comes first, once it is due; then the first in line of the first queue that has one.

        A session runs one task at a time, of whichever queue: a job of a queue that has the session's lease.
        """
        session = self.sessions.get(named_in(command))
        if self.any_task(command) is not None:
            return None
        queues = [queue for queue in command.queues if self.hands_out(queue)]
        lost = [self.jobs[name] for name in session.in_flight] if session else []
        again = [job for job in lost if job.queue in queues and self.is_wanted(job, command)]
        again.sort(key=lambda job: job.name != self.noticed_first)
        firsts = [self.first_in_line(queue, command) for queue in queues]
        return next((job for job in [*again, *firsts] if job is not None), None)

    def any_task(self, command: c.ClaimTask) -> Job | None:
        session = self.sessions.get(named_in(command))
        lease = session.lease if session else None
        bound = self.bound_to(named_in(command))
        return next((job for job in bound if job.queue and job.claim and job.claim.lease == lease), None)

    def nothing_to_do(self, command: c.ClaimTask) -> Told:
        return self.nothing_in(list(dict.fromkeys(command.queues)), command)

    def release_task(self, command: c.ReleaseTask) -> Told:
        claim = self.job(command.job_id).claim
        if claim is not None and claim.lease == command.lease_id and claim.session_id != named_in(command):
            raise Refused("InvalidInput", field="session_id", limit=None, size=None)
        reply = self.release_job(command)
        session = self.sessions.get(named_in(command))
        if session is not None and session.status == "open" and session.lease == command.lease_id:
            phase = phase_after(session.phase, command.outcome, reply.fields["status"])
            self.end_session(session, command.principal, phase)
        return reply


def phase_after(phase: str, outcome: str, status: str) -> str | None:
    """`idle`, `blocked` or `error`, unless the agent has said itself that it is over."""
    if phase in {"done", "error"}:
        return None
    after = "error" if status == "dead" else "blocked" if outcome == "deferred" else "idle"
    return None if after == phase else after
