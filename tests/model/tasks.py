"""Tasks of sessions: a session is opened with a task, and closed with it (docs/decisions/0022)."""

from octostore.core import commands as c
from tests.model import views
from tests.model.sessions import Sessions, is_offered_to, is_same_request
from tests.model.state import Job, Refused, Reply, Session, session_key


class Tasks(Sessions):
    def claim_task(self, command: c.ClaimTask) -> Reply:
        if command.lease_id is not None:
            return self.claim_in_open_session(command)
        session = self.own_session(command)
        is_open = session is not None and session.status == "open"
        its_own = [e for e in self.ended if e.session_id == session_key(command)]
        if session is not None and is_open and is_same_request(session, command):
            if self.current_task(command) is None:
                self.check_not_ended(command, its_own)
            self.note_replay(session)
            return self.task_within(session, command, replayed=True)
        self.check_not_ended(command, its_own)
        if session is not None and is_open and not is_offered_to(session, command.owner):
            return views.session_held(self, session)
        if self.current_task(command) is None:
            if self.first_task(command) is None:
                return self.nothing_to_do(command)
            self.check_count(command)
        # Claiming a task makes a session `planning`, unless it is already planning or executing.
        in_the_middle = session is not None and session.phase in {"planning", "executing"}
        opened = self.begin_session(command, command.owner, None if in_the_middle else "planning")
        return self.task_within(opened, command, replayed=False)

    def claim_in_open_session(self, command: c.ClaimTask) -> Reply:
        """With the lease of an open session, the task is claimed within it."""
        session = self.session_of(command)
        current = self.any_task(command)
        if current is not None and current.claim is not None and is_same_request(current.claim, command):
            return self.replay(current, current.claim)
        self.check_not_ended(command, [e for e in self.ended if e.session_id == session.name])
        if current is not None:
            return views.held(self, current)
        first = self.first_task(command)
        return self.nothing_to_do(command) if first is None else self.grant(first, command)

    def task_within(self, session: Session, command: c.ClaimTask, *, replayed: bool) -> Reply:
        current = self.current_task(command)
        if current is not None and current.claim is not None:
            reply = self.replay(current, current.claim) if replayed else views.claimed(self, current)
        else:
            first = self.first_task(command)
            if first is None:
                return self.nothing_to_do(command)
            reply = self.grant(first, command)
        opened = views.opened(self, session, replayed=replayed, but=reply.fields["job_id"])
        return Reply("ClaimReply", {**reply.fields, "session": opened.fields})

    def current_task(self, command: c.ClaimTask) -> Job | None:
        return next((job for job in self.bound_to(session_key(command)) if job.queue in command.queues), None)

    def first_task(self, command: c.ClaimTask) -> Job | None:
        """What the session lost, once it is due; then the first job of the first queue that has one.

        None if the session already has a task, from any queue: a queued job claimed with the session's lease.
        """
        session = self.sessions.get(session_key(command))
        if self.any_task(command) is not None:
            return None
        queues = [queue for queue in command.queues if self.hands_out(queue)]
        lost = [self.jobs[name] for name in session.in_flight] if session else []
        again = [job for job in lost if job.queue in queues and self.is_wanted(job, command)]
        again.sort(key=lambda job: job.name != self.noticed_first)
        firsts = [self.first_in_line(queue, command) for queue in queues]
        return next((job for job in [*again, *firsts] if job is not None), None)

    def any_task(self, command: c.ClaimTask) -> Job | None:
        session = self.sessions.get(session_key(command))
        lease = session.lease if session else None
        bound = self.bound_to(session_key(command))
        return next((job for job in bound if job.queue and job.claim and job.claim.lease == lease), None)

    def nothing_to_do(self, command: c.ClaimTask) -> Reply:
        return self.empty_reply(list(dict.fromkeys(command.queues)), command)

    def release_task(self, command: c.ReleaseTask) -> Reply:
        claim = self.job(command.job_id).claim
        if claim is not None and claim.lease == command.lease_id and claim.session_id != session_key(command):
            raise Refused("InvalidInput", field="session_id", limit=None, size=None)
        reply = self.release_job(command)
        session = self.sessions.get(session_key(command))
        if session is not None and session.status == "open" and session.lease == command.lease_id:
            phase = phase_after(session.phase, command.outcome, reply.fields["status"])
            self.end_session(session, command.principal, phase)
        return reply


def phase_after(phase: str, outcome: str, status: str) -> str | None:
    """`idle`, `blocked` or `error`, unless the agent already set `done` or `error`."""
    if phase in {"done", "error"}:
        return None
    after = "error" if status == "dead" else "blocked" if outcome == "deferred" else "idle"
    return None if after == phase else after
