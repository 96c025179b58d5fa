"""Claiming: one live claim per job, and it belongs to the call that made it."""

from collections.abc import Sequence

import msgspec

from octostore.core import views
from octostore.core.commands import AcquireLock, ClaimJob, ClaimNext, ClaimTask, ClaimTerms
from octostore.core.decide import needs
from octostore.core.decide.expiry import job_as_of_now
from octostore.core.decide.lease import renew
from octostore.core.decide.repeats import check_not_ended, is_repeat, replay_claim, what_has_ended
from octostore.core.decide.rules import decides
from octostore.core.decide.sessions import open_session_of
from octostore.core.documents import written
from octostore.core.errors import LimitExceeded
from octostore.core.events import Claimed
from octostore.core.model import LOSSES, Claim, Job
from octostore.core.moments import to_moment
from octostore.core.needs import Selection
from octostore.core.queue_status import queue_status, together
from octostore.core.replies import ClaimReply, QueueStatus
from octostore.core.session_keys import SessionKey, key_in
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet

IN_SESSION = "\n"
"""Prefix of a session id used as a holder: no name that a caller chooses can start with it."""

QUEUE_FULL_RETRY_MS = 1_000
"""How soon to check again if the queue is full, or if a job claimed by name is in a paused queue."""

LOOK_AGAIN_MS = 60_000
"""How soon to check an empty queue again if nothing is scheduled. New jobs wake waiters before then."""


@decides(ClaimJob, needs.job_with_documents, needs.terms)
def claim_job(ws: WorkingSet, command: ClaimJob, sources: Sources) -> ClaimReply:
    job = job_as_of_now(ws, command.job_id, sources)
    if job.claim is not None and is_repeat(job.claim, command):
        return replay_claim(ws, job, job.claim)
    if job.status == "done" and (not command.again or what_has_ended(ws, command)):
        return views.finished_reply(ws, job)
    check_not_ended(ws, command)
    if job.claim is not None:
        return views.held_reply(ws, job, job.claim)
    return _claim_if_free(ws, job, command, sources)


@decides(AcquireLock, needs.job_with_documents, needs.terms)
def acquire_lock(ws: WorkingSet, command: AcquireLock, sources: Sources) -> ClaimReply:
    holder = command.holder
    if command.session_id is not None:
        open_session_of(ws, command)
        if not command.ephemeral:
            # It only had to exist; but agents with different sessions are not the same holder.
            holder = holder or IN_SESSION + command.session_id
            command = msgspec.structs.replace(command, session_id=None)
    job = job_as_of_now(ws, command.job_id, sources)
    claim = job.claim
    if claim is None:
        reply = _claim_if_free(ws, job, command, sources)
        if job.claim is not None:
            job.claim.holder = holder
        return reply
    if _is_holder(claim, command, holder):
        renew(ws, job, claim, command.ttl)
        return replay_claim(ws, job, claim)
    return views.held_reply(ws, job, claim)


def _is_holder(claim: Claim, command: AcquireLock, holder: str | None) -> bool:
    """Agents may share a principal: it is the same holder if it says so, or sends no other session or metadata."""
    session_key = None if command.session_id is None else key_in(command)
    if not claim.is_lock or (claim.principal, claim.session_id) != (command.principal, session_key):
        return False
    if _is_named(claim.holder) or _is_named(holder):
        return claim.holder == holder
    return holder in {None, claim.holder} and command.metadata in {None, claim.metadata}


def _is_named(holder: str | None) -> bool:
    return holder is not None and not holder.startswith(IN_SESSION)


def _claim_if_free(ws: WorkingSet, job: Job, command: ClaimJob | AcquireLock, sources: Sources) -> ClaimReply:
    if job.status == "dead":
        return views.finished_reply(ws, job)
    if job.available_at > ws.now:
        return views.delayed_reply(ws, job, job.available_at)
    if job.queue is not None and not hands_out(ws, job.queue):
        return views.delayed_reply(ws, job, ws.now + QUEUE_FULL_RETRY_MS)
    return grant(ws, job, command, sources)


@decides(ClaimNext, needs.next_in_line, needs.terms)
def claim_next(ws: WorkingSet, command: ClaimNext, sources: Sources) -> ClaimReply:
    if command.request_id is not None:
        job_id = ws.requests.get((command.principal, command.request_id, command.queue))
        if job_id is not None and job_id.startswith(command.prefix):
            job = job_as_of_now(ws, job_id, sources)
            if job.claim is not None and is_repeat(job.claim, command):
                return replay_claim(ws, job, job.claim)
    check_not_ended(ws, command)
    is_open = hands_out(ws, command.queue)
    first = ws.line.first(command.queue, command.kinds, command.prefix) if is_open else None
    if first is None:
        return nothing_to_claim(ws, [command.queue], (command.kinds, command.prefix))
    return grant(ws, first, command, sources)


def nothing_to_claim(ws: WorkingSet, queues: Sequence[str], selection: Selection) -> ClaimReply:
    status = together(queue_status(ws, queue, selection) for queue in dict.fromkeys(queues))
    return views.empty_reply(status, _look_again_after(ws, status, queues))


def _look_again_after(ws: WorkingSet, status: QueueStatus, queues: Sequence[str]) -> int:
    """When something may become claimable without a write: a job is due, or a lease expires.

    Never for a paused queue: resuming it wakes waiters.
    """
    queues = [queue for queue in queues if not is_paused(ws, queue)]
    if not queues:
        return LOOK_AGAIN_MS
    usual = LOOK_AGAIN_MS if all(hands_out(ws, queue) for queue in queues) else QUEUE_FULL_RETRY_MS
    due_at = None if status.available_at is None else to_moment("available_at", status.available_at)
    return min([usual, *(moment - ws.now for moment in (ws.next_expiry, due_at) if moment is not None)])


def hands_out(ws: WorkingSet, queue_name: str) -> bool:
    queue = ws.queues[queue_name]
    return queue is None or queue.hands_out


def is_paused(ws: WorkingSet, queue_name: str) -> bool:
    queue = ws.queues[queue_name]
    return queue is not None and queue.pause is not None


def check_count(ws: WorkingSet, command: ClaimTerms) -> None:
    limit, is_lock = command.max_claims, isinstance(command, AcquireLock)
    if limit is not None and ws.claim_counts[command.principal, is_lock] >= limit:
        what = "locks" if is_lock else "claims"
        raise LimitExceeded(f"you already have {limit:,} {what}, the maximum; release one first", limit=limit)


def grant(ws: WorkingSet, job: Job, command: ClaimTerms, sources: Sources) -> ClaimReply:
    check_count(ws, command)
    session = open_session_of(ws, command) if command.session_id is not None else None
    ttl_ms = session.ttl_ms if session else round(command.ttl * 1_000)
    is_lock = isinstance(command, AcquireLock)
    details = Claimed(
        owner=command.owner,
        attempt=1 if job.status == "done" and not is_lock else job.attempts + 1,
        ttl_ms=ttl_ms,
        expires_at=None if session else ws.now + ttl_ms,
        metadata=written(command.metadata),
        lock_delay_ms=round(command.lock_delay * 1_000),
        is_lock=is_lock,
        took_over_from=_owner_of_lost_claim(job),
        host=command.host,
        pid=command.pid,
        max_silence_ms=None if command.max_silence is None else round(command.max_silence * 1_000),
        traceparent=command.traceparent,
    )
    claim = begin_claim(ws, job, details, actor=command.principal, session_id=session.session_id if session else None)
    # A claim that came with its session is the session's, and so is the right to write to it.
    claim.lease_id = session.lease_id if session and isinstance(command, ClaimTask) else sources.new_lease_id()
    claim.request_id = command.request_id
    if command.request_id is not None and job.queue is not None:
        ws.requests[command.principal, command.request_id, job.queue] = job.job_id
    return views.claimed_reply(ws, job, claim)


def begin_claim(ws: WorkingSet, job: Job, details: Claimed, *, actor: str, session_id: SessionKey | None) -> Claim:
    """A live claim, without its lease yet."""
    entry = ws.record("claimed", details, actor=actor, job=job, session_id=session_id)
    claim = job.claim
    if claim is None or claim.fencing_token != entry.seq:
        raise AssertionError("a claimed event makes a claim")
    ws.count_claim(claim.principal, is_lock=claim.is_lock, change=1)
    queue = ws.queues[job.queue] if job.queue is not None else None
    if queue is not None:
        queue.claimed += 1
    return claim


def _owner_of_lost_claim(job: Job) -> str | None:
    if job.last_outcome not in LOSSES:
        return None
    last = views.newest_attempt(job)
    return last.owner if last else None
