"""What all rules share: time, the log, who owns what, and how a job changes when a claim begins or ends."""

from collections.abc import Iterable

from tests.model.state import (
    Backoff,
    Claim,
    EndedRequest,
    Event,
    Fields,
    Job,
    Past,
    Refused,
    Session,
    Token,
    session_id_of,
)

NOBODY = "octostore"
"""The actor of an expiry, which no caller asked for."""
PAST_KEPT = 5
"""docs/guarantees.md, limits: attempts kept for the next owner."""
IN_FLIGHT_KEPT = 100
"""docs/decisions/0022: 100 names are kept."""
DEFERRED_MS = 60_000
"""`release_job`: 60 seconds by default."""


class Ground:
    def __init__(self, backoff: Backoff) -> None:
        self.backoff = backoff
        self.now = 0
        self.mark = 0
        """When anything last changed; time never goes below it (docs/decisions/0007)."""
        self.jobs: dict[str, Job] = {}
        self.sessions: dict[str, Session] = {}
        self.limits: dict[str, int | None] = {}
        self.pauses: dict[str, Fields] = {}
        self.tokens: dict[str, Token] = {}
        self.log: list[Event] = []
        self.ended: list[EndedRequest] = []
        self.recovered: list[Fields] = []
        """The expiries that the current transaction recorded."""
        self.chosen: str | None = None
        """The job that the real system replayed, for cases in which several are right."""
        self.noticed_first: str | None = None
        """The lost job of a session whose expiry the real system recorded first, if the model cannot know."""

    # The log

    def record(
        self,
        type_: str,
        actor: str,
        details: Fields,
        *,
        job: Job | None = None,
        queue: str | None = None,
        session_id: str | None = None,
    ) -> int:
        seq = len(self.log) + 1
        if job is not None:
            # An unknown job exists from its first event on.
            self.jobs[job.name] = job
            queue = job.queue or queue
        self.log.append(Event(seq, self.now, type_, actor, job.name if job else None, queue, session_id, details))
        self.changed()
        return seq

    def changed(self) -> None:
        self.mark = self.now

    # Who owns what

    def job(self, name: str) -> Job:
        return self.jobs.get(name) or Job(name, created_at=self.now)

    def known(self, name: str) -> Job:
        if name not in self.jobs:
            raise Refused("NotFound", job_id=name)
        return self.jobs[name]

    def bound_to(self, session_id: str) -> list[Job]:
        """Sorted by name. No document says so; readers see the order in `jobs` and in the log."""
        jobs = (job for job in self.jobs.values() if job.claim and job.claim.session_id == session_id)
        return sorted(jobs, key=lambda job: job.name)

    def expiry(self, claim: Claim) -> int:
        """When the claim expires, or the session it is bound to."""
        return self.sessions[claim.session_id or ""].expires_at if claim.expires_at is None else claim.expires_at

    def heartbeat(self, claim: Claim) -> int:
        if claim.expires_at is not None or claim.session_id is None:
            return claim.heartbeat_at
        return max(claim.heartbeat_at, self.sessions[claim.session_id].heartbeat_at)

    def late_at(self, claim: Claim) -> int:
        """The first whole millisecond after two thirds of the TTL.

        A bound claim is late when its session is: its own heartbeats change nothing.
        """
        leased = self.sessions[claim.session_id or ""] if claim.expires_at is None else claim
        return self.expiry(claim) - leased.ttl_ms + (2 * leased.ttl_ms + 2) // 3

    def is_late(self, claim: Claim, now: int) -> bool:
        return now >= self.late_at(claim)

    def is_stuck(self, claim: Claim, now: int) -> bool:
        """Alive, but without progress for `max_silence` (docs/decisions/0039)."""
        return claim.max_silence_ms is not None and now - claim.progress_at >= claim.max_silence_ms

    def live_claims(self) -> Iterable[Claim]:
        return [job.claim for job in self.jobs.values() if job.claim]

    def hands_out(self, queue: str) -> bool:
        return queue not in self.pauses and self.limit_reached(queue) is None

    def limit_reached(self, queue: str) -> int | None:
        limit = self.limits.get(queue)
        claimed = sum(1 for job in self.jobs.values() if job.queue == queue and job.claim)
        return None if limit is None or claimed < limit else limit

    # Expiry

    def sweep(self) -> None:
        """Record every expiry first, because an expired lease stops counting at once.

        In the order of time, claims before sessions; ties by the claim's age and the session's name. (No document says
        so; readers of the log see the order.)
        """
        claimed = [(self.expiry(job.claim), job.claim.token, job) for job in self.jobs.values() if job.claim]
        for expires_at, _, job in sorted(claimed, key=lambda row: row[:2]):
            if expires_at <= self.now:
                self.expire(job, expires_at)
        for session in sorted(self.sessions.values(), key=lambda session: (session.expires_at, session.name)):
            if session.status == "open" and session.expires_at <= self.now:
                self.expire_session(session)

    def expire(self, job: Job, expired_at: int) -> None:
        claim = job.claim
        assert claim is not None
        heartbeat_at = self.heartbeat(claim)
        self.end(job, "expired", NOBODY, ended_at=expired_at)
        if claim.session_id is not None:
            session = self.sessions[claim.session_id]
            others = [name for name in session.in_flight if name != job.name]
            session.in_flight = [*others, job.name][-IN_FLIGHT_KEPT:]
        self.recovered.append(
            {
                "job_id": job.name,
                "owner": claim.owner,
                "fencing_token": claim.token,
                "session_id": session_id_of(claim.session_id),
                "claimed_at": claim.claimed_at,
                "heartbeat_at": heartbeat_at,
                "ttl": claim.ttl_ms / 1_000,
                "expired_at": expired_at,
                "late_ms": self.now - expired_at,
                "status": job.status,
                "available_at": job.available_at,
            }
        )

    def expire_session(self, session: Session) -> None:
        """Its state and phase stay, to show what it was doing (docs/decisions/0022)."""
        details = {
            "agent": session.agent,
            "ended_at": session.expires_at,
            "heartbeat_at": session.heartbeat_at,
            "ttl_ms": session.ttl_ms,
            "late_ms": self.now - session.expires_at,
        }
        self.remember_session(session)
        self.record("session_expired", NOBODY, details, session_id=session.name)
        session.status = "expired"
        session.offered = False

    # How a claim begins and ends

    def begin(self, job: Job, claim: Claim, attempt: int, **details: str | None) -> None:
        """The fencing token is the `seq` of the `claimed` event."""
        claim.token = self.record(
            "claimed",
            claim.principal,
            {
                "owner": claim.owner,
                "attempt": attempt,
                "ttl_ms": claim.ttl_ms,
                "expires_at": claim.expires_at,
                "metadata": claim.metadata,
                "lock_delay_ms": claim.lock_delay_ms,
                "is_lock": claim.is_lock,
                "host": claim.host,
                "pid": claim.pid,
                "max_silence_ms": claim.max_silence_ms,
                "traceparent": claim.trace,
                **details,
            },
            job=job,
            session_id=claim.session_id,
        )
        claim.progress_at = self.now
        claim.before = (job.status, job.attempts)
        job.claim, job.status, job.attempts = claim, "claimed", attempt - 1
        if claim.session_id is not None:
            session = self.sessions[claim.session_id]
            session.in_flight = [name for name in session.in_flight if name != job.name]

    def end(
        self,
        job: Job,
        how: str,
        actor: str,
        *,
        ended_at: int,
        error: str | None = None,
        note: str | None = None,
        reason: str | None = None,
        retry_after_ms: int | None = None,
        has_result: bool = False,
        handed_over_to: str | None = None,
    ) -> Past:
        claim = job.claim
        assert claim is not None
        status, available_at, attempts = self.outcome(job, how, ended_at, retry_after_ms)
        if claim.is_lock and claim.before[0] == "done" and how not in {"done", "cancelled", "undone"}:
            # docs/guarantees.md: a lock on a finished job leaves it finished.
            status, available_at, attempts = "done", ended_at, job.attempts
        if claim.lock_delay_ms and how != "undone":
            available_at = max(available_at, ended_at + claim.lock_delay_ms)
        # docs/decisions/0038: if the owner was asked to drain, the job is cancelled, unless it is done.
        drained = None if handed_over_to or status == "done" else claim.stop
        if drained is not None and drained["cancels"]:
            status, available_at = "dead", ended_at
        # Without a note, the note of the last progress stays.
        note = note or (claim.progress or {}).get("note")
        past = Past(
            owner=claim.owner,
            token=claim.token,
            # docs/decisions/0022: after a hand-over, the ended claim does not know its lease.
            lease=None if handed_over_to else claim.lease,
            attempt=job.attempts + 1,
            claimed_at=claim.claimed_at,
            ended_at=ended_at,
            how=how,
            status=status,
            available_at=available_at,
            error=error,
            note=note,
            reason=reason,
            trace=claim.trace,
        )
        self.record_end(job, claim, past, actor, attempts, has_result=has_result, handed_over_to=handed_over_to)
        job.past.append(past)
        if len(job.past) > PAST_KEPT:
            # Undone claims are forgotten first: no caller ever knew of them.
            undone = [earlier for earlier in job.past[:-1] if earlier.how == "undone"]
            job.past.remove((undone or job.past)[0])
        job.claim = None
        job.status, job.available_at, job.attempts = status, available_at, attempts
        if status == "done":
            job.checkpoint = None
        if how == "undone":
            self.cancel_if_drained(job, how, drained, claim.session_id)
            return past
        if claim.request_id is not None:
            self.ended.append(
                EndedRequest(claim.principal, claim.request_id, job.name, job.queue, claim.session_id, past)
            )
        if status == "done" and how != "done":
            self.cancel_if_drained(job, how, drained, claim.session_id)
            return past
        job.last_outcome, job.error = how, error
        # The last note stays until the job is done (no document says so).
        job.note = note or (None if how == "done" else job.note)
        self.cancel_if_drained(job, how, drained, claim.session_id)
        return past

    def cancel_if_drained(self, job: Job, how: str, drained: Fields | None, session_id: str | None) -> None:
        """With the reason of the operator who asked for it."""
        if drained is not None and drained["cancels"] and how != "cancelled":
            details = {"reason": drained["reason"]}
            self.record("cancelled", drained["requested_by"], details, job=job, session_id=session_id)
            job.last_outcome, job.error = "cancelled", drained["reason"]

    # Asking an owner to stop

    def ask_to_stop(self, job: Job, actor: str, reason: str | None, *, cancels: bool) -> None:
        """Once, and a second time if the job will be cancelled."""
        claim = job.claim
        assert claim is not None
        if claim.stop is not None and (claim.stop["cancels"] or not cancels):
            return
        details = {"owner": claim.owner, "fencing_token": claim.token, "reason": reason, "cancels": cancels}
        self.record("stop_requested", actor, details, job=job, session_id=claim.session_id)
        claim.stop = {
            "reason": reason,
            "requested_at": self.now,
            "requested_by": actor,
            "cancels": cancels,
            "delivered_at": None,
        }

    def deliver_stop(self, job: Job, actor: str) -> Fields | None:
        claim = job.claim
        assert claim is not None
        if claim.stop is not None and claim.stop["delivered_at"] is None:
            asked_at = claim.stop["requested_at"]
            details = {"owner": claim.owner, "fencing_token": claim.token, "requested_at": asked_at}
            self.record("stop_delivered", actor, details, job=job, session_id=claim.session_id)
            claim.stop = claim.stop | {"delivered_at": self.now}
        return claim.stop

    def remember_session(self, session: Session) -> None:
        if session.request_id is not None:
            self.ended.append(EndedRequest(session.principal, session.request_id, None, None, session.name, None))

    def record_end(
        self,
        job: Job,
        claim: Claim,
        past: Past,
        actor: str,
        attempts: int,
        *,
        has_result: bool,
        handed_over_to: str | None,
    ) -> None:
        has_expired = past.how == "expired"
        details = {
            "owner": past.owner,
            "fencing_token": past.token,
            "attempt": past.attempt,
            "claimed_at": past.claimed_at,
            "heartbeat_at": self.heartbeat(claim),
            "status": past.status,
            "available_at": past.available_at,
            "attempts": attempts,
            "ended_at": past.ended_at,
            "error": past.error,
            "note": past.note,
            "reason": past.reason,
            "has_result": has_result,
            "handed_over_to": handed_over_to,
            "ttl_ms": claim.ttl_ms if has_expired else None,
            "late_ms": self.now - past.ended_at if has_expired else None,
            "traceparent": past.trace,
        }
        self.record(past.how, actor, details, job=job, session_id=claim.session_id)

    def outcome(self, job: Job, how: str, ended_at: int, retry_after_ms: int | None) -> tuple[str, int, int]:
        """Return the status, when it can be claimed, and the attempts used: the table in `release_job`."""
        is_task = job.queue is not None
        waiting = "queued" if is_task else "free"
        if how in {"done", "cancelled"}:
            # docs/decisions/0008: a cancelled job is dead, and no attempt is counted.
            return ("done", ended_at, job.attempts + 1) if how == "done" else ("dead", ended_at, job.attempts)
        if how == "undone":
            # As if it had never been claimed.
            status, attempts = job.claim.before if job.claim else (waiting, 0)
            return (
                ("done", job.available_at, attempts) if status == "done" else (waiting, job.available_at, job.attempts)
            )
        if how in {"released", "force_released"}:
            # A task goes back to its place in the queue, and no attempt is used. A job without a queue starts counting
            # again. (That force_released does the same, no document says.)
            return (waiting, job.available_at, job.attempts) if is_task else (waiting, ended_at, 0)
        if how == "deferred":
            return waiting, ended_at + (DEFERRED_MS if retry_after_ms is None else retry_after_ms), job.attempts
        used = job.attempts + 1
        if is_task and used >= job.max_attempts:
            return "dead", ended_at, used
        usual_ms = self.backoff.after(used) if is_task else 0
        return waiting, ended_at + (usual_ms if retry_after_ms is None else retry_after_ms), used
