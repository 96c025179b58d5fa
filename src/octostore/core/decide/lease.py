"""Writes by the owner of a live claim. Each names its lease; a late one is refused with who has the job now."""

from typing import Any

from octostore.core import views
from octostore.core.beats import renew_after
from octostore.core.commands import CheckpointJob, HeartbeatJob, LeaseCommand
from octostore.core.decide import needs
from octostore.core.decide.expiry import job_as_of_now
from octostore.core.decide.repeats import comes_late
from octostore.core.decide.rules import decides
from octostore.core.decide.silence import note_progress, report_if_stuck
from octostore.core.decide.stopping import deliver_stop_request
from octostore.core.errors import LeaseLost, Unreachable
from octostore.core.model import Attempt, Claim, Job, Outcome, Progress, read_history
from octostore.core.moments import to_datetime
from octostore.core.replies import CheckpointReply, HeartbeatReply
from octostore.core.same_secret import is_same_secret
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet


@decides(HeartbeatJob, needs.held_job)
def heartbeat_job(ws: WorkingSet, command: HeartbeatJob, sources: Sources) -> HeartbeatReply:
    job, claim = live_claim(ws, command, sources)
    if not comes_late(command.number, claim.heartbeat_number):
        _beat(ws, job, claim, command)
    expires_at = views.expiry_of(ws, claim)
    remaining_ms = expires_at - ws.now
    return HeartbeatReply(
        job_id=job.job_id,
        expires_at=to_datetime(expires_at),
        remaining_ms=remaining_ms,
        renew_after_ms=renew_after(remaining_ms),
        number=claim.heartbeat_number,
        stuck=report_if_stuck(ws, job, claim),
        stop_requested=deliver_stop_request(ws, job, claim, command.principal) if claim.stop_request else None,
    )


def _beat(ws: WorkingSet, job: Job, claim: Claim, command: HeartbeatJob) -> None:
    claim.heartbeat_number = command.number or claim.heartbeat_number
    if command.note is not None or command.percent is not None:
        last = claim.progress or Progress(None, None, ws.now)
        note = last.note if command.note is None else command.note
        claim.progress = Progress(note, command.percent, ws.now)
        note_progress(ws, claim)
    renew(ws, job, claim, command.ttl)


def renew(ws: WorkingSet, job: Job, claim: Claim, ttl: float | None) -> None:
    """Extend by `ttl` seconds from now; by default as long as before. A bound claim lives with its session."""
    claim.heartbeat_at = ws.now
    if claim.expires_at is not None:
        if ttl is not None:
            claim.ttl_ms = round(ttl * 1_000)
        if ws.now + claim.ttl_ms < claim.expires_at:
            ws.hastened.append(job)
        claim.expires_at = ws.now + claim.ttl_ms
    ws.renew_job(job)


@decides(CheckpointJob, needs.held_job)
def checkpoint_job(ws: WorkingSet, command: CheckpointJob, sources: Sources) -> CheckpointReply:
    job, claim = live_claim(ws, command, sources)
    if not comes_late(command.number, claim.checkpoint_number):
        ws.set_checkpoint(job.job_id, command.data)
        claim.checkpoint_number = command.number or claim.checkpoint_number
        if note_progress(ws, claim) or command.number is not None:
            ws.renew_job(job)
    return CheckpointReply(job_id=job.job_id, saved_at=to_datetime(ws.now), number=claim.checkpoint_number)


def live_claim(ws: WorkingSet, command: LeaseCommand[Any], sources: Sources) -> tuple[Job, Claim]:
    """The claim this lease authorises writes to; raises `LeaseLost` if there is none."""
    job = job_as_of_now(ws, command.job_id, sources)
    if job.claim is None or not same_lease(job.claim.lease_id, command.lease_id):
        raise lease_lost(ws, job, command)
    return job, job.claim


def same_lease(one: str, other: str) -> bool:
    return is_same_secret(one.encode(), other.encode())


def ended_attempt(job: Job, lease_id: str, outcome: Outcome | None = None) -> Attempt | None:
    """The attempt made under this lease, if it has ended (as `outcome`) and is remembered.

    The newest, if there are several: a session's lease may claim the same task more than once.
    """
    theirs = (a for a in reversed(read_history(job)) if a.lease_id and same_lease(a.lease_id, lease_id))
    return next((attempt for attempt in theirs if outcome in {None, attempt.how}), None)


def lease_lost(ws: WorkingSet, job: Job, command: LeaseCommand[Any]) -> LeaseLost | Unreachable:
    if command.fencing_token is not None and command.fencing_token > ws.seq:
        return Unreachable(
            f"the store has gone back in time: this lease has fencing token {command.fencing_token}, but the store is "
            f"at {ws.seq}. It was restored from an older copy; run `octostore restore --forward` to continue "
            "with higher numbers",
            reason="restored_behind",
        )
    ended = ended_attempt(job, command.lease_id)
    holder = views.owner_view(ws, job)
    if ws.jobs[job.job_id] is None:
        return LeaseLost(job.job_id, "nobody has ever claimed this job")
    if ended is None:
        why = "it is not the job's current lease"
    else:
        how = ended.how.replace("_", "-") + ("" if ended.reason is None else f": {ended.reason!r}")
        why = f"it ended at {to_datetime(ended.ended_at):%Y-%m-%d %H:%M:%S} UTC ({how})"
    if holder is not None:
        why += f"; {holder.owner!r} has held the job since {holder.claimed_at:%Y-%m-%d %H:%M:%S} UTC"
    else:
        why += f"; the job is {job.status}"
    return LeaseLost(job.job_id, why, ended=views.attempt_view(ended) if ended else None, holder=holder)
