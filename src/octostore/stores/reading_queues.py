"""Replies about queues: how many jobs each has, and the order in which they will run."""

from collections.abc import Sequence

import msgspec

from octostore.core import questions as q
from octostore.core import views
from octostore.core.limits import BUCKET_MS, JOBS_LOOKED_THROUGH, QUEUE_COUNT_MAX, QUEUES_SHOWN, RECOVER_LIMIT
from octostore.core.model import Job
from octostore.core.moments import to_datetime
from octostore.core.needs import LineNeed, Needs
from octostore.core.queue_figures import Activity
from octostore.core.queue_status import queue_status
from octostore.core.replies import JobPage, QueueList, QueueStatus
from octostore.core.run_order import PARTS, RunPosition, beginning, parse_position, parts_of, position_of
from octostore.core.sources import Sources
from octostore.core.working_set import WorkingSet
from octostore.stores.base import QueueFilter, Reading
from octostore.stores.reading import job_as_of_now


def _jobs_as_of_now(reading: Reading, ws: WorkingSet, queues: Sequence[str], sources: Sources) -> list[Job]:
    """Jobs in these queues whose claims have expired, as of now."""
    lines = {queue: LineNeed(set()) for queue in queues}
    reading.load(ws, Needs(queues=set(queues), lines=lines, sweep_limit=RECOVER_LIMIT))
    loaded = [job_as_of_now(ws, job_id, sources) for job_id in list(ws.jobs)]
    return [job for job in loaded if job.queue in lines]


def get_queue(reading: Reading, ws: WorkingSet, question: q.GetQueue, sources: Sources) -> QueueStatus:
    ws.count_to = QUEUE_COUNT_MAX
    _jobs_as_of_now(reading, ws, [question.queue], sources)
    return queue_status(ws, question.queue, (None, question.prefix))


def list_queues(reading: Reading, ws: WorkingSet, question: q.ListQueues, sources: Sources) -> QueueList:
    ws.count_to = QUEUE_COUNT_MAX
    names = reading.queue_names(ws, question.prefix, QUEUES_SHOWN + 1)
    shown, selection = names[:QUEUES_SHOWN], (None, question.prefix)
    _jobs_as_of_now(reading, ws, shown, sources)
    reading.count_queues(ws, shown, selection)
    activity = Activity(ws.now, reading.look_back(ws.now, question.prefix))
    return QueueList(
        queues=[activity.figures_of(queue_status(ws, name, selection)) for name in shown],
        more=len(names) > len(shown),
        counted_at=to_datetime(ws.now),
        counted_to=ws.count_to,
        rates_since=to_datetime(activity.since),
        bucket_seconds=BUCKET_MS // 1_000,
    )


def list_in_run_order(reading: Reading, ws: WorkingSet, question: q.ListJobs, sources: Sources) -> JobPage:
    queue, prefix = question.queue or "", question.prefix or ""
    moved = [job for job in _jobs_as_of_now(reading, ws, [queue], sources) if job.job_id.startswith(prefix)]
    position = beginning(ws.now) if question.cursor is None else parse_position(question.cursor)
    looked_at: list[Job] = []
    most = JOBS_LOOKED_THROUGH if question.is_searching else question.limit
    for part in parts_of(question.stored_status):
        if PARTS.index(part) < PARTS.index(position.part):
            continue
        after = position if part == position.part else beginning(position.moment, part)
        looked_at += _part_of_queue(reading, ws, QueueFilter(queue, prefix, after, most + 1), moved)
        if len(looked_at) > most:
            break
    positions = [position_of(job, position.moment) for job in looked_at]  # by their stored state
    found = [at for at, job in enumerate(looked_at[:most]) if question.matches(job_as_of_now(ws, job.job_id, sources))]
    shown = found[: question.limit]
    last = shown[-1] if len(found) > len(shown) else most - 1 if len(looked_at) > most else None
    jobs = [views.job_view(ws, looked_at[at], with_documents=False) for at in shown]
    return JobPage(jobs=jobs, cursor=None if last is None else str(positions[last]))


def _part_of_queue(reading: Reading, ws: WorkingSet, wanted: QueueFilter, moved: Sequence[Job]) -> list[Job]:
    """Includes jobs that have `moved` into this part since they were stored, and excludes those that left it."""
    after, moment = wanted.after, wanted.after.moment
    names = {job.job_id for job in moved}
    stored: list[Job] = []
    while True:
        page = reading.list_queue(ws, msgspec.structs.replace(wanted, after=after))
        stored += [job for job in page if job.job_id not in names]
        if len(page) < wanted.limit or len(stored) >= wanted.limit:
            break
        # Jobs that moved were claimed, and are stored there in name order.
        last = page[-1]
        after = RunPosition(moment, after.part, (last.job_id,)) if last.job_id in names else position_of(last, moment)
    here = [job for job in moved if position_of(job, moment).is_after(wanted.after)]
    return sorted([*stored, *here], key=lambda job: position_of(job, moment).key)[: wanted.limit]
