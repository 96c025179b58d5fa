"""End one's own claim. The same lease may repeat the call, and gets the same reply without a second event."""

from octostore.core.commands import ReleaseJob, ReleaseLock
from octostore.core.decide import needs
from octostore.core.decide.ending import How, end_claim
from octostore.core.decide.expiry import job_as_of_now
from octostore.core.decide.lease import ended_attempt, lease_lost, live_claim, same_lease
from octostore.core.decide.rules import decides
from octostore.core.events import Ended
from octostore.core.model import Attempt, Outcome
from octostore.core.moments import to_datetime
from octostore.core.replies import ReleaseReply
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet


@decides(ReleaseJob, needs.held_job)
def release_job(ws: WorkingSet, command: ReleaseJob, sources: Sources) -> ReleaseReply:
    job = job_as_of_now(ws, command.job_id, sources)
    claim = job.claim
    if claim is None or not same_lease(claim.lease_id, command.lease_id):
        repeated = ended_attempt(job, command.lease_id, command.outcome)
        if repeated is not None:
            return _reply(job.job_id, command.outcome, repeated)
        raise lease_lost(ws, job, command)
    end = How(
        command.outcome,
        ended_at=ws.now,
        error=command.error,
        note=command.note,
        retry_after_ms=None if command.retry_after is None else round(command.retry_after * 1_000),
        result=command.result,
    )
    ended = end_claim(ws, job, claim, end, actor=command.principal, sources=sources)
    return _reply(job.job_id, command.outcome, ended)


@decides(ReleaseLock, needs.held_job)
def release_lock(ws: WorkingSet, command: ReleaseLock, sources: Sources) -> ReleaseReply:
    job, claim = live_claim(ws, command, sources)
    ended = end_claim(ws, job, claim, How("released", ended_at=ws.now), actor=command.principal, sources=sources)
    return _reply(job.job_id, "released", ended)


def _reply(job_id: str, outcome: Outcome, ended: Attempt | Ended) -> ReleaseReply:
    return ReleaseReply(
        job_id=job_id,
        outcome=outcome,
        status=ended.status,
        attempt=ended.attempt,
        fencing_token=ended.fencing_token,
        released_at=to_datetime(ended.ended_at),
        available_at=to_datetime(ended.available_at),
        traceparent=ended.traceparent,
    )
