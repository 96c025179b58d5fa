"""Put jobs in queues, and change the settings of queues."""

from msgspec import UNSET

from octostore.core import views
from octostore.core.commands import Enqueue, SetQueue
from octostore.core.decide import needs
from octostore.core.decide.expiry import job_as_of_now
from octostore.core.decide.rules import decides
from octostore.core.errors import LimitExceeded
from octostore.core.events import Enqueued, QueueLimited
from octostore.core.model import Claim, Job, Queue
from octostore.core.moments import to_datetime
from octostore.core.replies import EnqueueReply, QueueView
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet


@decides(Enqueue, needs.job_with_documents, needs.queue, needs.queued_count)
def enqueue(ws: WorkingSet, command: Enqueue, sources: Sources) -> EnqueueReply:
    """A job held as a lock is enqueued under that claim: if the work on it fails, it is retried."""
    job = job_as_of_now(ws, command.job_id, sources)
    if job.is_enqueued or job.status == "done":
        return _reply(job, created=False)
    _check_count(ws, command)
    due_at = ws.now + round((command.delay or 0) * 1_000) if command.run_at is None else command.run_at
    details = Enqueued(
        kind=command.kind,
        queue=command.queue,
        priority=command.priority,
        # Keep a lock-delay that is still running; otherwise, a moment in the past is a better place in the line.
        available_at=max(due_at, job.available_at) if job.available_at > ws.now else due_at,
        max_attempts=command.max_attempts,
        status="claimed" if job.claim else "queued",
        has_payload=command.payload is not None,
        traceparent=command.traceparent,
    )
    ws.record("enqueued", details, actor=command.principal, job=job, queue=command.queue, document=command.payload)
    if job.claim is not None:
        _count_in(ws, job, job.claim, command.queue)
    return _reply(job, created=True)


def _check_count(ws: WorkingSet, command: Enqueue) -> None:
    principal, limit = command.principal, command.max_queued
    if limit is not None and ws.queued_counts[principal] + ws.queued_changes.get(principal, 0) >= limit:
        problem = f"you already have {limit:,} queued jobs, the maximum; enqueue more once some are claimed"
        raise LimitExceeded(problem, limit=limit)


def _count_in(ws: WorkingSet, job: Job, claim: Claim, queue_name: str) -> None:
    """The claim now counts as one of the queue: for its limit, and for a repeat of the request that made it."""
    queue = ws.queues[queue_name]
    if queue is not None:
        queue.claimed += 1
    if claim.request_id is not None:
        ws.requests[claim.principal, claim.request_id, queue_name] = job.job_id


@decides(SetQueue, needs.counted_queue)
def set_queue(ws: WorkingSet, command: SetQueue, _sources: Sources) -> QueueView:
    queue = ws.queues[command.queue] or Queue(command.queue)
    max_claimed = queue.max_claimed if command.max_claimed is UNSET else command.max_claimed
    paused = None if command.paused == (queue.pause is not None) else command.paused
    if paused is not None or max_claimed != queue.max_claimed:
        details = QueueLimited(max_claimed, paused, command.reason)
        ws.record("queue_limited", details, actor=command.principal, queue=command.queue)
    pause = views.pause_view(ws.queues[command.queue])
    return QueueView(queue=command.queue, max_claimed=max_claimed, paused=pause is not None, pause=pause)


def _reply(job: Job, *, created: bool) -> EnqueueReply:
    return EnqueueReply(
        job_id=job.job_id,
        created=created,
        status=job.status,
        queue=job.queue,
        kind=job.kind,
        priority=job.priority,
        max_attempts=job.max_attempts,
        available_at=to_datetime(job.available_at),
    )
