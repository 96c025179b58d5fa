"""What operators do to other people's jobs. Each call can be repeated, and records one event."""

from octostore.core import views
from octostore.core.commands import (
    CancelJob,
    DiscardJob,
    DiscardMatching,
    ForceReleaseJob,
    RequestStop,
    RequeueJob,
    RequeueMatching,
)
from octostore.core.decide import needs
from octostore.core.decide.ending import How, end_claim
from octostore.core.decide.expiry import job_as_of_now
from octostore.core.decide.rules import decides
from octostore.core.decide.stopping import ask_to_stop
from octostore.core.decide.tasks import free_session
from octostore.core.errors import Conflict, NotFound
from octostore.core.events import Cancelled, Discarded, Requeued
from octostore.core.model import HowEnded, Job
from octostore.core.replies import JobView
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet


@decides(CancelJob, needs.job_with_session)
def cancel_job(ws: WorkingSet, command: CancelJob, sources: Sources) -> JobView:
    job = _known(ws, command.job_id, sources)
    if job.claim is not None and command.drain:
        ask_to_stop(ws, job, job.claim, command.principal, command.reason, cancels=True)
    elif job.claim is not None:
        _take_away(ws, job, "cancelled", command, sources)
    elif job.status == "queued":
        ws.record("cancelled", Cancelled(command.reason), actor=command.principal, job=job)
    elif job.status != "dead":
        raise Conflict(
            f"only a queued or claimed job can be cancelled; {job.job_id!r} is {job.status}", status=job.status
        )
    return views.job_view(ws, job)


@decides(RequestStop, needs.job_with_documents)
def request_stop(ws: WorkingSet, command: RequestStop, sources: Sources) -> JobView:
    job = _known(ws, command.job_id, sources)
    if job.claim is None:
        hint = "; use cancel to take it out of its queue" if job.status == "queued" else ""
        raise Conflict(f"{job.job_id!r} is {job.status}, so there is no owner to stop{hint}", status=job.status)
    ask_to_stop(ws, job, job.claim, command.principal, command.reason)
    return views.job_view(ws, job)


@decides(DiscardJob, needs.job_with_documents)
def discard_job(ws: WorkingSet, command: DiscardJob, sources: Sources) -> JobView:
    job = _known(ws, command.job_id, sources)
    if job.status == "dead":
        give_up(ws, job, command)
    elif job.status != "free" or job.last_outcome != "discarded":
        hint = "; cancel it first" if job.status == "queued" else ""
        raise Conflict(f"only a dead job can be discarded; {job.job_id!r} is {job.status}{hint}", status=job.status)
    return views.job_view(ws, job)


@decides(RequeueJob, needs.job_with_documents)
def requeue_job(ws: WorkingSet, command: RequeueJob, sources: Sources) -> JobView:
    job = _known(ws, command.job_id, sources)
    if job.claim is not None:
        raise Conflict(
            f"{job.job_id!r} is claimed by {job.claim.owner!r}; force-release it first, or wait", status=job.status
        )
    if job.status in {"dead", "done"} or job.available_at > ws.now:
        run_again(ws, job, command)
    return views.job_view(ws, job)


@decides(ForceReleaseJob, needs.job_with_session)
def force_release_job(ws: WorkingSet, command: ForceReleaseJob, sources: Sources) -> JobView:
    job = _known(ws, command.job_id, sources)
    _take_away(ws, job, "force_released", command, sources)
    return views.job_view(ws, job)


def give_up(ws: WorkingSet, job: Job, command: DiscardJob | DiscardMatching) -> None:
    ws.record("discarded", Discarded(ws.now, command.reason), actor=command.principal, job=job)


def run_again(ws: WorkingSet, job: Job, command: RequeueJob | RequeueMatching) -> None:
    attempts = job.attempts if job.status == "queued" or command.keep_attempts else 0
    details = Requeued("queued" if job.is_enqueued else "free", ws.now, attempts, command.reason)
    ws.record("requeued", details, actor=command.principal, job=job)


def _take_away(ws: WorkingSet, job: Job, how: HowEnded, command: CancelJob | ForceReleaseJob, sources: Sources) -> None:
    claim = job.claim
    if claim is not None:
        end = How(how, ended_at=ws.now, reason=command.reason)
        end_claim(ws, job, claim, end, actor=command.principal, sources=sources)
        free_session(ws, job, claim, command.principal, sources)


def _known(ws: WorkingSet, job_id: str, sources: Sources) -> Job:
    if ws.jobs[job_id] is None:
        raise NotFound(f"nobody has ever claimed or enqueued {job_id!r}", job_id=job_id)
    return job_as_of_now(ws, job_id, sources)
