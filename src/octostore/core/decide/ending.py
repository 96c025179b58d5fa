"""What happens to a job when its claim ends."""

import msgspec

from octostore.core.events import Cancelled, Ended
from octostore.core.model import (
    Claim,
    EndedRequest,
    HowEnded,
    Job,
    RequestEnd,
    Session,
    Status,
    StopRequest,
    read_stop_request,
)
from octostore.core.retry import backoff_ms
from octostore.core.sources import Sources
from octostore.core.views import heartbeat_of, newest_attempt
from octostore.core.working_set import WorkingSet

DEFER_DEFAULT_MS = 60_000
"""How long a deferred job waits if its owner does not say."""


class How(msgspec.Struct, frozen=True):
    """How a claim ended, according to its owner, its expiry or an operator."""

    how: HowEnded
    ended_at: int
    error: str | None = None
    note: str | None = None
    reason: str | None = None
    retry_after_ms: int | None = None
    result: bytes | None = None
    handed_over_to: str | None = None


class After(msgspec.Struct, frozen=True):
    status: Status
    available_at: int
    attempts: int


def after(job: Job, claim: Claim, end: How, sources: Sources) -> After:
    then = _after(job, claim, end, sources)
    if then.status != "done" and _cancels(claim):
        return After("dead", end.ended_at, then.attempts)
    return then


def _cancels(claim: Claim) -> StopRequest | None:
    """The stop request that cancels the job after this claim, if any."""
    request = read_stop_request(claim)
    return request if request is not None and request.cancels else None


def _after(job: Job, claim: Claim, end: How, sources: Sources) -> After:
    """The rule of outcomes: only failures and expiries use up an attempt, and a lock is never retried or dead."""
    waiting: Status = "queued" if job.is_enqueued else "free"
    used = job.attempts + 1
    match end.how:
        case "done":
            done = After("done", end.ended_at, used)
        case "cancelled":
            done = After("dead", end.ended_at, job.attempts)
        case "undone":
            return _as_before(job, claim, waiting)
        case _ if claim.is_lock and claim.was_done:
            # Its holder has not done the job's work again, and must not make others do it.
            done = After("done", end.ended_at, job.attempts)
        case "released" | "force_released":
            # A queued job keeps its place in the line; for a lock, a clean end forgets earlier failures.
            place, attempts = (job.available_at, job.attempts) if job.is_enqueued else (end.ended_at, 0)
            done = After(waiting, place, attempts)
        case "deferred":
            done = After(waiting, end.ended_at + _chosen(end, DEFER_DEFAULT_MS), job.attempts)
        case "failed" | "expired":
            done = _after_failure(job, used, end, sources)
    if claim.lock_delay_ms:
        done = After(done.status, max(done.available_at, end.ended_at + claim.lock_delay_ms), done.attempts)
    return done


def _after_failure(job: Job, used: int, end: How, sources: Sources) -> After:
    if not job.is_enqueued:
        return After("free", end.ended_at + _chosen(end, 0), used)
    if used >= job.max_attempts:
        return After("dead", end.ended_at, used)
    delay_ms = backoff_ms(sources.retry, used, sources.jitter())
    return After("queued", end.ended_at + _chosen(end, delay_ms), used)


def _as_before(job: Job, claim: Claim, waiting: Status) -> After:
    """Nobody ever knew of the claim, so there is no lock-delay either."""
    if not claim.was_done:
        return After(waiting, job.available_at, job.attempts)
    before = newest_attempt(job)
    if before is None:
        return After("done", job.available_at, job.attempts)
    # An attempt that did not end as done was a lock on the finished job, and was not counted.
    return After("done", job.available_at, before.attempt if before.how == "done" else before.attempt - 1)


def _chosen(end: How, usual_ms: int) -> int:
    return usual_ms if end.retry_after_ms is None else end.retry_after_ms


def end_claim(ws: WorkingSet, job: Job, claim: Claim, end: How, *, actor: str, sources: Sources) -> Ended:
    """End `claim`, the live claim of `job`."""
    then = after(job, claim, end, sources)
    note = end.note or (claim.progress.note if claim.progress else None)
    expired = end.how == "expired"
    # Positional, because a call with more than 15 keywords builds a dictionary first.
    details = Ended(
        claim.owner,
        claim.fencing_token,
        job.attempts + 1,
        claim.claimed_at,
        heartbeat_of(ws, claim),
        then.status,
        then.available_at,
        then.attempts,
        end.ended_at,
        error=end.error,
        note=note,
        reason=end.reason,
        has_result=end.result is not None,
        handed_over_to=end.handed_over_to,
        ttl_ms=claim.ttl_ms if expired else None,
        late_ms=ws.now - end.ended_at if expired else None,
        traceparent=claim.attempt_traceparent,
    )
    queue = ws.queues[job.queue] if job.queue is not None else None
    if queue is not None:
        queue.claimed -= 1
    ws.count_claim(claim.principal, is_lock=claim.is_lock, change=-1)
    if claim.request_id is not None and end.how != "undone":
        ws.remember(
            EndedRequest(
                principal=claim.principal,
                request_id=claim.request_id,
                job_id=job.job_id,
                queue=job.queue,
                session_id=claim.session_id,
                how=end.how,
                ended_at=end.ended_at,
                owner=claim.owner,
                claimed_at=claim.claimed_at,
                fencing_token=claim.fencing_token,
                attempt=job.attempts + 1,
            )
        )
    ws.record(end.how, details, actor=actor, job=job, session_id=claim.session_id, document=end.result)
    request = _cancels(claim)
    if request is not None and job.status == "dead" and end.how != "cancelled":
        ws.record("cancelled", Cancelled(request.reason), actor=request.by, job=job, session_id=claim.session_id)
    return details


def remember_session(ws: WorkingSet, session: Session, how: RequestEnd, ended_at: int) -> None:
    """The request that opened this session, which has ended, must not open it again."""
    if session.request_id is not None:
        ws.remember(
            EndedRequest(
                principal=session.principal,
                request_id=session.request_id,
                job_id=None,
                queue=None,
                session_id=session.session_id,
                how=how,
                ended_at=ended_at,
                owner=session.agent,
                claimed_at=session.opened_at,
            )
        )
