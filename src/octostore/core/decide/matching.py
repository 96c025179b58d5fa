"""Operator calls on all matching dead jobs: what they would do to one, a batch at a time."""

from collections.abc import Callable
from typing import TypeVar

from octostore.core.commands import DiscardMatching, MatchingCommand, RequeueMatching
from octostore.core.decide import needs
from octostore.core.decide.expiry import job_as_of_now
from octostore.core.decide.operate import give_up, run_again
from octostore.core.decide.rules import decides
from octostore.core.model import Job
from octostore.core.replies import ChangedReply
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet

M = TypeVar("M", bound=MatchingCommand)


@decides(RequeueMatching, needs.dead_jobs)
def requeue_matching(ws: WorkingSet, command: RequeueMatching, sources: Sources) -> ChangedReply:
    return _change_each(ws, command, sources, run_again)


@decides(DiscardMatching, needs.dead_jobs)
def discard_matching(ws: WorkingSet, command: DiscardMatching, sources: Sources) -> ChangedReply:
    return _change_each(ws, command, sources, give_up)


def _change_each(
    ws: WorkingSet, command: M, sources: Sources, change: Callable[[WorkingSet, Job, M], None]
) -> ChangedReply:
    listed_to = ws.listed_to[needs.dead_jobs_of(command)]
    changed: list[str] = []
    for job_id in _names(ws, command, listed_to):
        job = job_as_of_now(ws, job_id, sources)
        if _matches(job, command):
            if len(changed) == command.limit:
                return ChangedReply(changed=len(changed), after=changed[-1])
            change(ws, job, command)
            changed.append(job_id)
    return ChangedReply(changed=len(changed), after=listed_to)


def _names(ws: WorkingSet, command: MatchingCommand, last: str | None) -> list[str]:
    """Among all loaded jobs: other commands in the transaction may have loaded some that died in it."""
    return sorted(
        job_id
        for job_id, job in ws.jobs.items()
        if job is not None
        and job_id.startswith(command.prefix)
        and job_id > (command.after or "")
        and (last is None or job_id <= last)
    )


def _matches(job: Job, command: MatchingCommand) -> bool:
    return job.status == "dead" and command.queue in {None, job.queue} and command.kind in {None, job.kind}
