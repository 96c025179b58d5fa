"""What a queue contains: for callers who find nothing to claim, and for anyone who asks."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from octostore.core.limits import OWNERS_FROM_CLAIMS, OWNERS_SHOWN
from octostore.core.line import is_due
from octostore.core.model import Job
from octostore.core.moments import earliest, to_datetime_or_none
from octostore.core.needs import Selection
from octostore.core.replies import QueueStatus
from octostore.core.views import pause_view
from octostore.core.working_set import WorkingSet

EVERYTHING: Selection = (None, "")


def queue_status(ws: WorkingSet, queue: str, selection: Selection = EVERYTHING) -> QueueStatus:
    """As of now in the transaction: the store's counts plus the jobs of the working set.

    `selection` excludes what the caller could never claim or must not see. Settled jobs count whatever their kind.
    """
    kinds, prefix = selection
    beside = ws.counts_of(queue, selection)
    here = [job for job in _jobs_of(ws, queue) if job.job_id.startswith(prefix)]
    wanted = [job for job in here if kinds is None or job.kind in kinds]
    later = [job.available_at for job in wanted if job.status == "queued" and not is_due(job, ws.now)]
    due = [job.available_at for job in wanted if is_due(job, ws.now)]
    ready = beside.ready + len(due)
    held = [(job.job_id, job.claim.owner) for job in wanted if job.claim is not None]
    settings = ws.queues.get(queue)
    pause = pause_view(settings)
    return QueueStatus(
        queue=queue,
        all_done=not (ready or beside.later or later or beside.claimed or held or beside.has_more_claims),
        ready=min(ready, ws.count_to),
        later=min(beside.later + len(later), ws.count_to),
        available_at=to_datetime_or_none(earliest(beside.due_at, min(later, default=None))),
        claimed=min(beside.claimed + len(held), ws.count_to),
        owners=_owners([*beside.owners, *held]),
        dead=min(beside.dead + sum(job.status == "dead" for job in here), ws.count_to),
        done=min(beside.done + sum(job.status == "done" for job in here), ws.count_to),
        max_claimed=None if settings is None else settings.max_claimed,
        counted_to=ws.count_to,
        kinds=None if kinds is None else list(kinds),
        oldest_due_at=to_datetime_or_none(earliest(beside.oldest_due_at, min(due, default=None))),
        paused=pause is not None,
        pause=pause,
    )


def together(statuses: Iterable[QueueStatus]) -> QueueStatus:
    """The combined status of several queues, under the name of the first."""
    first, *others = statuses
    if not others:
        return first
    each = [first, *others]

    def first_of(moments: Iterable[datetime | None]) -> datetime | None:
        return min((moment for moment in moments if moment is not None), default=None)

    def total(name: str) -> int:
        count: int = sum(getattr(status, name) for status in each)
        return min(count, first.counted_to)

    return QueueStatus(
        queue=first.queue,
        all_done=all(status.all_done for status in each),
        ready=total("ready"),
        later=total("later"),
        available_at=first_of(status.available_at for status in each),
        claimed=total("claimed"),
        owners=list(dict.fromkeys(owner for status in each for owner in status.owners))[:OWNERS_SHOWN],
        dead=total("dead"),
        done=total("done"),
        max_claimed=None,
        counted_to=first.counted_to,
        kinds=first.kinds,
        oldest_due_at=first_of(status.oldest_due_at for status in each),
        paused=any(status.paused for status in each),
        pause=next((status.pause for status in each if status.paused), None),
    )


def _jobs_of(ws: WorkingSet, queue: str) -> Iterator[Job]:
    return (job for job in ws.jobs.values() if job is not None and job.queue == queue)


def _owners(claims: list[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys(owner for _, owner in sorted(claims)[:OWNERS_FROM_CLAIMS]))[:OWNERS_SHOWN]
