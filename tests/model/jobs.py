"""Claiming, and what the owner of a claim may do."""

import json
from dataclasses import replace
from typing import Any

from octostore.core import commands as c
from tests.model import views
from tests.model.ground import NOBODY, Ground
from tests.model.state import Claim, EndedRequest, Job, Past, Refused, Reply, Session, session_id_of, session_key

QUEUE_FULL_MS = 1_000
"""When to ask a full queue again. No document says so."""
RETRY_MS = 60_000
"""When to ask again if nothing is scheduled."""


class Jobs(Ground):
    # Claiming

    def claim_job(self, command: c.ClaimJob) -> Reply:
        job = self.job(command.job_id)
        if job.claim is not None and self.is_repeat(job.claim, command):
            return self.replay(job, job.claim)
        had = [e for e in self.ended if e.job_id == job.name]
        if job.status == "done" and (not command.again or self.has_ended(command, had)):
            # docs/guarantees.md: a late repeat of `claim_job` gets `done`, with the result, if the job is done.
            return views.finished(job)
        self.check_not_ended(command, had)
        if job.claim is not None:
            return views.held(self, job)
        return self.claim_if_free(job, command)

    def acquire_lock(self, command: c.AcquireLock) -> Reply:
        """A lock is a job (wire.md), and can be acquired even if that is done (no document says so)."""
        session = self.session_for(command) if command.session_id is not None else None
        job = self.job(command.job_id)
        claim = job.claim
        if claim is None:
            return self.claim_if_free(job, command)
        if self.is_holder(claim, command, session):
            # The holder gets the same lease back, renewed.
            self.renew(claim, command.ttl)
            return self.replay(job, claim)
        return views.held(self, job)

    def is_holder(self, claim: Claim, command: c.AcquireLock, session: Session | None) -> bool:
        """Whether the caller holds this lock: the same principal, and for an ephemeral lock the same session.

        If either names a `holder`, they must be equal. Otherwise session and metadata must match, as far as the
        command has them.
        """
        bound_to = session.name if session and command.ephemeral else None
        if not claim.is_lock or claim.principal != command.principal or claim.session_id != bound_to:
            return False
        if claim.holder is not None or command.holder is not None:
            return claim.holder == command.holder
        same_session = command.session_id in {None, claim.in_session}
        return same_session and (command.metadata is None or document(command.metadata) == claim.metadata)

    def replay(self, job: Job, claim: Claim) -> Reply:
        """A claim that was returned again can no longer be undone."""
        if not claim.is_replayed:
            claim.is_replayed = True
            self.changed()
        return views.claimed(self, job, replayed=True)

    def has_ended(self, command: c.ClaimTerms | c.OpenSession, ended: list[EndedRequest]) -> list[EndedRequest]:
        asked = (command.principal, command.request_id)
        return [request for request in ended if (request.principal, request.request_id) == asked]

    def check_not_ended(self, command: c.ClaimTerms | c.OpenSession, ended: list[EndedRequest]) -> None:
        """A request id whose claim has ended does not claim again; the refusal says how its newest claim ended."""
        had = self.has_ended(command, ended)
        if not had:
            return
        request = had[-1]
        if request.job_id is None:
            raise Refused("LeaseLost", job_id=session_id_of(request.session_id), ended=None, holder=None)
        job, past = self.job(request.job_id), request.past
        if past is not None and past not in job.past:
            # A job keeps its last five attempts. Of older ones, only the request's own record remains.
            past = replace(past, error=None, note=None, reason=None, trace=None)
        raise views.lease_lost(self, job, past)

    def claim_next(self, command: c.ClaimNext) -> Reply:
        repeated = self.repeated_in(command)
        if repeated is not None and repeated.claim is not None:
            return self.replay(repeated, repeated.claim)
        self.check_not_ended(command, [e for e in self.ended if e.queue == command.queue])
        first = self.first_in_line(command.queue, command) if self.hands_out(command.queue) else None
        if first is None:
            return self.empty_reply([command.queue], command)
        return self.grant(first, command)

    def repeated_in(self, command: c.ClaimNext) -> Job | None:
        """The job that the same request claimed in this queue.

        If a request id has several claims in a queue, any of them will do (no document says which).
        """
        jobs = [job for job in self.jobs.values() if job.queue == command.queue]
        repeated = [job for job in jobs if job.claim is not None and self.is_repeat(job.claim, command)]
        outside = [job for job in repeated if not job.name.startswith(command.prefix)]
        if self.chosen not in {job.name for job in repeated}:
            return None if outside or not repeated else repeated[0]
        return next((job for job in repeated if job.name == self.chosen and job not in outside), None)

    def is_repeat(self, claim: Claim, command: c.ClaimJob | c.ClaimNext) -> bool:
        return (
            command.request_id is not None
            and claim.request_id == command.request_id
            and claim.principal == command.principal
        )

    def claim_if_free(self, job: Job, command: c.ClaimJob | c.AcquireLock) -> Reply:
        if job.status == "dead":
            return views.finished(job)
        if job.available_at > self.now:
            return views.delayed(self, job, job.available_at)
        if job.queue is not None and not self.hands_out(job.queue):
            return views.delayed(self, job, self.now + QUEUE_FULL_MS)
        return self.grant(job, command)

    def first_in_line(self, queue: str, command: c.ClaimNext | c.ClaimTask) -> Job | None:
        line = [job for job in self.jobs.values() if job.queue == queue and self.is_wanted(job, command)]
        return min(line, key=lambda job: job.place, default=None)

    def is_wanted(self, job: Job, command: c.ClaimNext | c.ClaimTask) -> bool:
        is_due = job.status == "queued" and job.available_at <= self.now
        is_its_kind = command.kinds is None or job.kind in command.kinds
        return is_due and is_its_kind and job.name.startswith(command.prefix)

    def empty_reply(self, queues: list[str], command: c.ClaimNext | c.ClaimTask) -> Reply:
        status = views.queue_status(self, queues, command.kinds, command.prefix, 100)
        return views.empty(self, status, self.retry_at(queues, status["available_at"]))

    def retry_at(self, queues: list[str], due_at: int | None) -> int:
        """When a job may become claimable without a write: the next one due, or the next expiry.

        Never in a paused queue; soon in a full one.
        """
        going = [queue for queue in queues if queue not in self.pauses]
        if not going:
            return self.now + RETRY_MS
        usual = RETRY_MS if all(self.hands_out(queue) for queue in going) else QUEUE_FULL_MS
        moments = [] if due_at is None else [due_at]
        moments += [self.expiry(claim) for claim in self.live_claims()]
        moments += [session.expires_at for session in self.sessions.values() if session.status == "open"]
        return min([self.now + usual, *(moment for moment in moments if moment > self.now)])

    def check_count(self, command: c.ClaimTerms) -> None:
        """Locks have their own limit."""
        if command.max_claims is None:
            return
        is_lock = isinstance(command, c.AcquireLock)
        theirs = [claim for claim in self.live_claims() if claim.principal == command.principal]
        if len([claim for claim in theirs if claim.is_lock == is_lock]) >= command.max_claims:
            raise Refused("LimitExceeded", status=None, limit=command.max_claims)

    def session_for(self, command: c.ClaimTerms) -> Session:
        """The live session to bind a claim to. Other principals cannot see it."""
        session = self.sessions.get(session_key(command))
        if session is None:
            raise Refused("NotFound", job_id=None)
        if session.status != "open":
            raise Refused("LeaseLost", job_id=session.id, ended=None, holder=None)
        return session

    def grant(self, job: Job, command: c.ClaimTerms) -> Reply:
        self.check_count(command)
        is_lock = isinstance(command, c.AcquireLock)
        session = self.session_for(command) if command.session_id is not None else None
        if isinstance(command, c.AcquireLock) and not command.ephemeral:
            # Only ephemeral locks end with their session.
            session = None
        ttl_ms = session.ttl_ms if session else round(command.ttl * 1_000)
        claim = Claim(
            owner=command.owner,
            principal=command.principal,
            token=0,
            lease=session.lease if session and isinstance(command, c.ClaimTask) else f"claim {len(self.log) + 1}",
            ttl_ms=ttl_ms,
            claimed_at=self.now,
            heartbeat_at=self.now,
            expires_at=None if session else self.now + ttl_ms,
            session_id=session.name if session else None,
            request_id=command.request_id,
            metadata=document(command.metadata),
            lock_delay_ms=round(command.lock_delay * 1_000),
            is_lock=is_lock,
            holder=command.holder if isinstance(command, c.AcquireLock) else None,
            in_session=command.session_id,
            host=command.host,
            pid=command.pid,
            max_silence_ms=None if command.max_silence is None else round(command.max_silence * 1_000),
            trace=command.traceparent,
        )
        # A done job starts over, unless it is only locked.
        attempt = 1 if job.status == "done" and not is_lock else job.attempts + 1
        self.begin(job, claim, attempt, took_over_from=lost_by(job))
        return views.claimed(self, job)

    # What an owner may do

    def claim_of(self, job: Job, lease: str) -> Claim:
        if job.claim is None or job.claim.lease != lease:
            raise views.lease_lost(self, job, ended_by(job, lease))
        return job.claim

    def renew(self, claim: Claim, ttl: float | None) -> None:
        claim.heartbeat_at = self.now
        if claim.expires_at is not None:
            claim.ttl_ms = claim.ttl_ms if ttl is None else round(ttl * 1_000)
            claim.expires_at = self.now + claim.ttl_ms
        self.changed()

    def heartbeat_job(self, command: c.HeartbeatJob) -> Reply:
        job = self.job(command.job_id)
        claim = self.claim_of(job, command.lease_id)
        if self.is_new(claim, "heartbeat", command.number):
            self.apply_heartbeat(claim, command)
        is_stuck = self.log_if_stuck(job, claim)
        left_ms = self.expiry(claim) - self.now
        fields = {
            "job_id": command.job_id,
            "expires_at": self.expiry(claim),
            "remaining_ms": left_ms,
            "renew_after_ms": left_ms // 3,
            "number": claim.numbers.get("heartbeat"),
            "stuck": is_stuck,
            "stop_requested": self.deliver_stop(job, command.principal),
        }
        return Reply("HeartbeatReply", fields)

    def log_if_stuck(self, job: Job, claim: Claim) -> bool:
        """Once for each stall, at a heartbeat of the owner or its session."""
        is_stuck = self.is_stuck(claim, self.now)
        if is_stuck and not claim.is_logged_stuck:
            self.log_stuck(job, claim)
        return is_stuck

    def log_stuck(self, job: Job, claim: Claim) -> None:
        claim.is_logged_stuck = True
        details = {
            "owner": claim.owner,
            "fencing_token": claim.token,
            "last_progress_at": claim.progress_at,
            "max_silence_ms": claim.max_silence_ms,
            "note": (claim.progress or {}).get("note"),
        }
        self.record("stuck", NOBODY, details, job=job, session_id=claim.session_id)

    def apply_heartbeat(self, claim: Claim, command: c.HeartbeatJob) -> None:
        if command.note is not None or command.percent is not None:
            # The last note stays until there is another; the percentage does not (no document says so).
            note = (claim.progress or {}).get("note") if command.note is None else command.note
            claim.progress = {"note": note, "percent": command.percent, "at": self.now}
            self.note_progress(claim)
        self.renew(claim, command.ttl)

    def note_progress(self, claim: Claim) -> None:
        """A note, a percentage or a checkpoint is progress; a plain heartbeat is not."""
        claim.progress_at = self.now
        claim.is_logged_stuck = False

    def is_new(self, claim: Claim, kind: str, number: int | None) -> bool:
        """A number that is not above the newest of its lease and kind of write is a repeat, and changes nothing."""
        if number is None:
            return True
        if number <= claim.numbers.get(kind, 0):
            return False
        claim.numbers[kind] = number
        return True

    def checkpoint_job(self, command: c.CheckpointJob) -> Reply:
        job = self.job(command.job_id)
        claim = self.claim_of(job, command.lease_id)
        if self.is_new(claim, "checkpoint", command.number):
            job.checkpoint = document(command.data)
            self.note_progress(claim)
            self.changed()
        fields = {"job_id": job.name, "saved_at": self.now, "number": claim.numbers.get("checkpoint")}
        return Reply("CheckpointReply", fields)

    def release_job(self, command: c.ReleaseJob) -> Reply:
        job = self.job(command.job_id)
        if job.claim is None or job.claim.lease != command.lease_id:
            before = ended_by(job, command.lease_id, command.outcome)
            if before is not None:
                return views.released(job, before)
        self.claim_of(job, command.lease_id)
        past = self.end(
            job,
            command.outcome,
            command.principal,
            ended_at=self.now,
            error=command.error,
            note=command.note,
            retry_after_ms=None if command.retry_after is None else round(command.retry_after * 1_000),
            has_result=command.result is not None,
        )
        if command.outcome == "done":
            job.result = document(command.result)
        return views.released(job, past)

    def release_lock(self, command: c.ReleaseLock) -> Reply:
        """Unlike `release_job`, a repeat is refused."""
        job = self.job(command.job_id)
        self.claim_of(job, command.lease_id)
        return views.released(job, self.end(job, "released", command.principal, ended_at=self.now))


def document(encoded: bytes | None) -> Any:
    return None if encoded is None else json.loads(encoded)


def lost_by(job: Job) -> str | None:
    """The last owner, if its claim expired or was taken away. An undone claim had no owner."""
    owners = [past.owner for past in job.past if past.how != "undone"]
    return owners[-1] if owners and job.last_outcome in {"expired", "force_released"} else None


def ended_by(job: Job, lease: str, outcome: str | None = None) -> Past | None:
    """How the lease last ended, or last ended with this outcome."""
    theirs = [past for past in job.past if past.lease == lease and outcome in {None, past.how}]
    return theirs[-1] if theirs else None
