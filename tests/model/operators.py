"""Queues, and what operators do to jobs and tokens of others."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from octostore.core import commands as c
from octostore.core.model import LOCAL
from tests.model import views
from tests.model.jobs import document
from tests.model.state import Job, Refused, Reply, Token
from tests.model.tasks import Tasks, phase_after


class Operators(Tasks):
    # Queues

    def enqueue(self, command: c.Enqueue) -> Reply:
        """A done job stays done, even if it was never enqueued (no document says so)."""
        job = self.job(command.job_id)
        is_new = job.queue is None and job.status != "done"
        if is_new:
            self.check_queued(command)
            job.enqueuer = command.principal
            self.put_in_queue(job, command)
        fields = {
            "job_id": job.name,
            "created": is_new,
            "status": job.status,
            "queue": job.queue,
            "kind": job.kind,
            "priority": job.priority,
            "max_attempts": job.max_attempts,
            "available_at": job.available_at,
        }
        return Reply("EnqueueReply", fields)

    def check_queued(self, command: c.Enqueue) -> None:
        """The limit is per enqueuing principal; local callers have none."""
        theirs = [job for job in self.jobs.values() if job.status == "queued" and job.enqueuer == command.principal]
        limit = command.max_queued
        if limit is not None and command.principal != LOCAL and len(theirs) >= limit:
            raise Refused("LimitExceeded", status=None, limit=limit)

    def put_in_queue(self, job: Job, command: c.Enqueue) -> None:
        delay_ms = 0 if command.delay is None else int(command.delay * 1_000)
        due_at = self.now + delay_ms if command.run_at is None else command.run_at
        # A lock delay that has not passed is kept; a `run_at` in the past means an earlier place in the queue.
        available_at = max(due_at, job.available_at) if job.available_at > self.now else due_at
        status = "claimed" if job.claim else "queued"
        if job.claim is not None and job.claim.before[0] == "done":
            job.claim.before = ("queued", 0)  # if the claim is undone, the job is waiting and not done
        details = {
            "kind": command.kind,
            "queue": command.queue,
            "priority": command.priority,
            "available_at": available_at,
            "max_attempts": command.max_attempts,
            "status": status,
            "has_payload": command.payload is not None,
            "traceparent": command.traceparent,
        }
        job.enqueued = self.record("enqueued", command.principal, details, job=job, queue=command.queue)
        job.queue, job.kind, job.priority = command.queue, command.kind, command.priority
        job.max_attempts, job.payload = command.max_attempts, document(command.payload)
        job.trace = command.traceparent
        job.status, job.available_at, job.attempts = status, available_at, 0

    def set_queue(self, command: c.SetQueue) -> Reply:
        """Omitted settings stay. Pausing a paused queue changes nothing, not even the reason."""
        name, limit, was_paused = command.queue, self.limits.get(command.queue), command.queue in self.pauses
        if command.max_claimed is not UNSET:
            limit = command.max_claimed
        is_changed = command.paused is not None and command.paused != was_paused
        if is_changed or limit != self.limits.get(name):
            details = {"max_claimed": limit, "paused": command.paused if is_changed else None, "reason": command.reason}
            self.record("queue_limited", command.principal, details, queue=name)
            self.limits[name] = limit
        if is_changed and command.paused:
            self.pauses[name] = {"at": self.now, "by": command.principal, "reason": command.reason}
        elif is_changed:
            del self.pauses[name]
        pause = self.pauses.get(name)
        return Reply("QueueView", {"queue": name, "max_claimed": limit, "paused": bool(pause), "pause": pause})

    # Jobs

    def cancel_job(self, command: c.CancelJob) -> Reply:
        job = self.known(command.job_id)
        if job.status not in {"queued", "claimed", "dead"}:
            raise Refused("Conflict", status=job.status)
        if job.claim is not None and command.drain:
            self.ask_to_stop(job, command.principal, command.reason, cancels=True)
        elif job.claim is not None:
            self.take_away(job, "cancelled", command)
            job.error = command.reason
        elif job.status == "queued":
            self.record("cancelled", command.principal, {"reason": command.reason}, job=job)
            job.status, job.last_outcome, job.error = "dead", "cancelled", command.reason
        return Reply("JobView", views.job_view(self, job))

    def request_stop(self, command: c.RequestStop) -> Reply:
        job = self.known(command.job_id)
        if job.claim is None:
            raise Refused("Conflict", status=job.status)
        self.ask_to_stop(job, command.principal, command.reason, cancels=False)
        return Reply("JobView", views.job_view(self, job))

    def discard_job(self, command: c.DiscardJob) -> Reply:
        """The job is as if it was never enqueued, except that its earlier attempts stay."""
        job = self.known(command.job_id)
        was_discarded = job.status == "free" and job.last_outcome == "discarded"
        if job.status != "dead" and not was_discarded:
            raise Refused("Conflict", status=job.status)
        if job.status == "dead":
            self.discard(job, command)
        return Reply("JobView", views.job_view(self, job))

    def discard(self, job: Job, command: c.DiscardJob | c.DiscardMatching) -> None:
        details = {"available_at": self.now, "reason": command.reason}
        self.record("discarded", command.principal, details, job=job)
        job.status, job.available_at, job.attempts = "free", self.now, 0
        job.last_outcome, job.error = "discarded", command.reason
        job.queue = job.kind = job.payload = job.checkpoint = job.trace = None
        job.priority = job.max_attempts = job.enqueued = 0

    def requeue_job(self, command: c.RequeueJob) -> Reply:
        job = self.known(command.job_id)
        if job.claim is not None:
            raise Refused("Conflict", status="claimed")
        if job.status in {"dead", "done"} or job.available_at > self.now:
            self.requeue(job, command)
        return Reply("JobView", views.job_view(self, job))

    def requeue(self, job: Job, command: c.RequeueJob | c.RequeueMatching) -> None:
        # A job that waits for its retry keeps its attempts.
        attempts = job.attempts if command.keep_attempts or job.status == "queued" else 0
        status = "free" if job.queue is None else "queued"
        details = {"status": status, "available_at": self.now, "attempts": attempts, "reason": command.reason}
        self.record("requeued", command.principal, details, job=job)
        job.status, job.available_at, job.attempts = status, self.now, attempts

    def requeue_matching(self, command: c.RequeueMatching) -> Reply:
        return self.change_matching(command, self.requeue)

    def discard_matching(self, command: c.DiscardMatching) -> Reply:
        return self.change_matching(command, self.discard)

    def change_matching(self, command: Any, change: Callable[[Job, Any], None]) -> Reply:
        """In the order of names. `after` says where to continue, if there are more."""
        matching = [
            job
            for name, job in sorted(self.jobs.items())
            if job.status == "dead"
            and name > (command.after or "")
            and name.startswith(command.prefix)
            and command.queue in {None, job.queue}
            and command.kind in {None, job.kind}
        ]
        batch = matching[: command.limit]
        for job in batch:
            change(job, command)
        after = batch[-1].name if len(matching) > len(batch) else None
        return Reply("ChangedReply", {"changed": len(batch), "after": after})

    def force_release_job(self, command: c.ForceReleaseJob) -> Reply:
        job = self.known(command.job_id)
        if job.claim is not None:
            self.take_away(job, "force_released", command)
        return Reply("JobView", views.job_view(self, job))

    def take_away(self, job: Job, how: str, command: c.CancelJob | c.ForceReleaseJob) -> None:
        """A session that was opened with this task, and holds nothing else, is closed with it."""
        claim = job.claim
        assert claim is not None
        self.end(job, how, command.principal, ended_at=self.now, reason=command.reason)
        session = None if claim.session_id is None else self.sessions[claim.session_id]
        is_its_task = session is not None and job.queue is not None and claim.lease == session.lease
        if session is not None and is_its_task and not self.bound_to(session.name):
            self.end_session(session, command.principal, phase_after(session.phase, "released", job.status))

    # Tokens

    def create_token(self, command: c.CreateToken) -> Reply:
        """A repeat changes nothing. Two tokens cannot have the same secret."""
        known = self.tokens.get(command.token_id)
        wanted = (command.digest, command.name, command.scopes, command.prefix)
        if known is not None:
            if (known.digest, known.principal, known.scopes, known.prefix) != wanted:
                raise Refused("Conflict", status=None)
            return Reply("TokenView", views.token_view(known))
        self.check_secret(command.digest)
        expires_at = None if command.expires_in is None else self.now + round(command.expires_in * 1_000)
        details = {
            "token_id": command.token_id,
            "name": command.name,
            "scopes": command.scopes,
            "prefix": command.prefix,
            "expires_at": expires_at,
        }
        self.record("token_created", command.principal, details)
        token = Token(
            command.token_id, command.name, command.digest, command.scopes, command.prefix, self.now, expires_at
        )
        self.tokens[token.name] = token
        return Reply("TokenView", views.token_view(token))

    def rotate_token(self, command: c.RotateToken) -> Reply:
        token = self.token(command.token_id)
        if not token.is_valid(self.now):
            raise Refused("Conflict", status=None)
        if token.digest != command.digest:
            self.check_secret(command.digest)
            details = {"token_id": token.name, "name": token.principal}
            self.record("token_rotated", command.principal, details)
            token.digest = command.digest
        return Reply("TokenView", views.token_view(token))

    def revoke_token(self, command: c.RevokeToken) -> Reply:
        token = self.token(command.token_id)
        if token.revoked_at is None:
            details = {"token_id": token.name, "name": token.principal}
            self.record("token_revoked", command.principal, details)
            token.revoked_at = self.now
        return Reply("TokenView", views.token_view(token))

    def token(self, token_id: str) -> Token:
        if token_id not in self.tokens:
            raise Refused("NotFound", job_id=None)
        return self.tokens[token_id]

    def check_secret(self, digest: bytes) -> None:
        if any(token.digest == digest for token in self.tokens.values()):
            raise Refused("Conflict", status=None)
