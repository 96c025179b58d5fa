"""Sessions, and how they are handed over (docs/sessions-and-tasks.md, docs/decisions/0022 and 0035)."""

from typing import TypeAlias

from octostore.core import commands as c
from tests.model import views
from tests.model.jobs import Jobs, document
from tests.model.state import Claim, Job, Refused, Reply, Session, session_key

Opening: TypeAlias = c.OpenSession | c.ClaimTask
Write: TypeAlias = c.KeepSessionAlive | c.SaveSession | c.HandOverSession | c.CloseSession | c.ClaimTask

MAY_FOLLOW = {
    "idle": {"planning", "executing", "done"},
    "planning": {"executing", "blocked", "idle", "done", "error"},
    "executing": {"planning", "blocked", "idle", "done", "error"},
    "blocked": {"planning", "executing", "idle", "done", "error"},
    "done": {"idle", "planning"},
    "error": {"idle", "planning"},
}
"""The picture in docs/sessions-and-tasks.md."""


class Sessions(Jobs):
    # Opening

    def open_session(self, command: c.OpenSession) -> Reply:
        known = self.own_session(command)
        is_open = known is not None and known.status == "open"
        if known is not None and is_open and is_same_request(known, command):
            self.note_replay(known)
            return views.opened(self, known, replayed=True)
        its_own = [e for e in self.ended if e.session_id == session_key(command) and e.job_id is None]
        self.check_not_ended(command, its_own)
        if known is not None and is_open and not is_offered_to(known, command.agent):
            raise Refused("Held", **views.session_times(known), metadata=None, progress=None)
        return views.opened(self, self.begin_session(command, command.agent), replayed=False)

    def own_session(self, command: Opening) -> Session | None:
        """Two principals that use the same id have two sessions."""
        return self.sessions.get(session_key(command))

    def note_replay(self, session: Session) -> None:
        if not session.is_replayed:
            session.is_replayed = True
            self.changed()

    def check_sessions(self, command: Opening) -> None:
        theirs = [s for s in self.sessions.values() if s.principal == command.principal and s.status == "open"]
        if command.max_sessions is not None and len(theirs) >= command.max_sessions:
            raise Refused("LimitExceeded", status=None, limit=command.max_sessions)

    def begin_session(self, command: Opening, agent: str, phase: str | None = None) -> Session:
        """Open a new session, or resume one with its context, phase, note and in-flight jobs."""
        before = self.sessions.get(session_key(command))
        if before is None or before.status != "open":
            self.check_sessions(command)
        ttl_ms = round(command.ttl * 1_000)
        details = {
            "agent": agent,
            "ttl_ms": ttl_ms,
            "expires_at": self.now + ttl_ms,
            "resumed": before is not None,
            "phase": phase,
            "phase_before": before.phase if before and phase else None,
            "without_lease": isinstance(command, c.OpenSession) and command.without_lease,
        }
        seq = self.record("session_opened", command.principal, details, session_id=session_key(command))
        session = Session(
            id=command.session_id,
            agent=agent,
            principal=command.principal,
            lease=f"session {seq}",
            request_id=command.request_id,
            ttl_ms=ttl_ms,
            opened_at=self.now,
            heartbeat_at=self.now,
            expires_at=self.now + ttl_ms,
            without_lease=isinstance(command, c.OpenSession) and command.without_lease,
        )
        if before is not None:
            session.resumed = True
            session.context, session.context_seq = before.context, before.context_seq
            session.context_bytes = before.context_bytes
            session.phase, session.note, session.in_flight = before.phase, before.note, before.in_flight
            session.giver_lease = before.giver_lease if before.offered else None
        session.phase = phase or session.phase
        self.sessions[session.name] = session
        for job in self.bound_to(session.name):
            # Claims that were handed over get the new owner's lease.
            assert job.claim is not None
            job.claim.lease, job.claim.ttl_ms = session.lease, session.ttl_ms
        return session

    # Writing

    def session_of(self, command: Write) -> Session:
        """The live session that the command may write to. Other principals cannot see it."""
        session = self.sessions.get(session_key(command))
        if session is None or not (may_write(session, command) or session.principal == command.principal):
            raise Refused("NotFound", job_id=None)
        if command.lease_id is None and not may_write(session, command):
            raise Refused("NotAllowed")
        if not may_write(session, command) or session.status != "open":
            raise Refused("LeaseLost", job_id=session.id, ended=None, holder=None)
        return session

    def keep_session_alive(self, command: c.KeepSessionAlive) -> Reply:
        session = self.session_of(command)
        session.heartbeat_at, session.expires_at = self.now, self.now + session.ttl_ms
        self.changed()
        bound = [(job, job.claim) for job in self.bound_to(session.name) if job.claim is not None]
        stuck = [job.name for job, claim in bound if self.log_if_stuck(job, claim)]
        stops = {job.name: self.deliver_stop(job, command.principal) for job in self.bound_to(session.name)}
        fields = {
            "session_id": session.id,
            "expires_at": session.expires_at,
            "remaining_ms": session.ttl_ms,
            "renew_after_ms": session.ttl_ms // 3,
            "stuck_jobs": stuck,
            "stop_requested": {name: stop for name, stop in stops.items() if stop is not None},
        }
        return Reply("KeepaliveReply", fields)

    def save_session(self, command: c.SaveSession) -> Reply:
        session = self.session_of(command)
        if command.number is not None and command.number <= (session.save_number or 0):
            return saved(session)
        phase = None if command.phase == session.phase else command.phase
        if phase is not None and phase not in MAY_FOLLOW[session.phase]:
            raise Refused("Conflict", status=session.phase)
        details = {
            "context_bytes": len(command.context),
            "agent": session.agent,
            "phase": phase,
            "phase_before": session.phase if phase else None,
        }
        session.context_seq = self.record("session_saved", command.principal, details, session_id=session.name)
        session.context, session.context_bytes = document(command.context), len(command.context)
        session.phase = phase or session.phase
        session.save_number = command.number or session.save_number
        return saved(session)

    def close_session(self, command: c.CloseSession) -> Reply:
        session = self.sessions.get(session_key(command))
        if session is None or session.status != "closed" or not may_write(session, command):
            session = self.session_of(command)
            self.end_session(session, command.principal)
        return Reply("ClosedReply", {"session_id": session.id})

    def end_session(self, session: Session, actor: str, phase: str | None = None) -> None:
        """A closed session forgets what was in flight, and the note of a hand-over."""
        for job in self.bound_to(session.name):
            self.end(job, "released", actor, ended_at=self.now, reason="its session was closed")
        details = {"agent": session.agent, "ended_at": self.now, "phase": phase}
        details["phase_before"] = session.phase if phase else None
        self.remember_session(session)
        self.record("session_closed", actor, details, session_id=session.name)
        session.status, session.expires_at, session.offered = "closed", self.now, False
        session.phase = phase or session.phase
        session.note, session.in_flight = None, []

    # Handing over

    def hand_over_session(self, command: c.HandOverSession) -> Reply:
        session = self.sessions.get(session_key(command))
        if session is None or not is_same_hand_over(session, command):
            session = self.session_of(command)
            self.hand_over(session, command)
        fields = {"session_id": session.id, "agent": session.agent, "expires_at": session.expires_at}
        return Reply("HandedOverReply", {**fields, "jobs": [job.name for job in self.bound_to(session.name)]})

    def hand_over(self, session: Session, command: c.HandOverSession) -> None:
        self.remember_session(session)
        details = {
            "agent": session.agent,
            "to_agent": command.to_agent,
            "ttl_ms": session.ttl_ms,
            "expires_at": self.now + session.ttl_ms,
            "note": command.note,
        }
        seq = self.record("session_handed_over", command.principal, details, session_id=session.name)
        session.giver_lease, session.lease, session.request_id = session.lease, f"offer {seq}", None
        session.agent, session.offered, session.note = command.to_agent, True, command.note
        session.heartbeat_at, session.expires_at = self.now, self.now + session.ttl_ms
        session.is_replayed, session.save_number = False, None
        for job in self.bound_to(session.name):
            self.pass_on(job, session, command)

    def pass_on(self, job: Job, session: Session, command: c.HandOverSession) -> None:
        """End the claim and begin another, with a higher fencing token. No attempt is counted."""
        before = job.claim
        assert before is not None
        reason = f"handed over to {session.agent!r}"
        self.end(
            job,
            "released",
            command.principal,
            ended_at=self.now,
            note=command.note,
            reason=reason,
            handed_over_to=session.agent,
        )
        claim = Claim(
            owner=session.agent,
            principal=before.principal,
            token=0,
            lease=session.lease,
            ttl_ms=session.ttl_ms,
            claimed_at=self.now,
            heartbeat_at=self.now,
            expires_at=None,
            session_id=session.name,
            metadata=before.metadata,
            lock_delay_ms=before.lock_delay_ms,
            is_lock=before.is_lock,
            in_session=session.id,  # and no `holder`, which named the previous owner
            progress=before.progress,
            max_silence_ms=before.max_silence_ms,
            trace=before.trace,
        )
        self.begin(job, claim, job.attempts + 1, handed_over_by=before.owner)
        if before.stop is not None:
            # A request to stop passes on to the new owner.
            asked = before.stop
            self.ask_to_stop(job, asked["requested_by"], asked["reason"], cancels=asked["cancels"])


def saved(session: Session) -> Reply:
    fields = {"session_id": session.id, "context_seq": session.context_seq, "phase": session.phase}
    return Reply("SavedReply", {**fields, "number": session.save_number})


def may_write(session: Session, command: Write) -> bool:
    """Only with its lease, except for lock clients, and for operators who close it or hand it over (decision 35)."""
    if command.lease_id is not None:
        return session.lease == command.lease_id
    if isinstance(command, c.HandOverSession | c.CloseSession) and (
        command.as_operator or command.principal == "local"
    ):
        return True
    return session.without_lease and session.principal == command.principal


def is_same_request(session: Session | Claim, command: Opening) -> bool:
    return command.request_id is not None and session.request_id == command.request_id


def is_offered_to(session: Session, agent: str) -> bool:
    return session.offered and session.agent == agent


def is_same_hand_over(session: Session, command: c.HandOverSession) -> bool:
    """With the giver's lease, a repeat is recognised until the session ends.

    Without a lease, until the other agent opens the session (no document says so).
    """
    if session.status != "open" or session.giver_lease is None or session.agent != command.to_agent:
        return False
    if command.lease_id is None:
        return session.offered and may_write(session, command)
    return session.giver_lease == command.lease_id
