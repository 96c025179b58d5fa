"""The order of a queue: lowest priority, then earliest due, then oldest."""

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from heapq import heappop, heappush
from itertools import count

from octostore.core.model import Job

_Place = tuple[int, int, int]
_Entry = tuple[_Place, int, Job]


class Line:
    """The claimable jobs of a working set, in order by queue and kind.

    Jobs that have moved on are not removed but skipped when they come up, so a job may be added again at any time.
    """

    def __init__(self) -> None:
        self._heaps: dict[str, dict[str, list[_Entry]]] = defaultdict(lambda: defaultdict(list))
        self._tie_break = count()

    def add(self, job: Job, now: int) -> None:
        if job.queue is not None and job.kind is not None and is_due(job, now):
            heappush(self._heaps[job.queue][job.kind], (_place(job), next(self._tie_break), job))

    def first(self, queue: str, kinds: Iterable[str] | None, prefix: str = "") -> Job | None:
        heaps = self._heaps[queue]
        peek = partial(_search, prefix=prefix) if prefix else _peek
        firsts = [first for kind in (kinds or list(heaps)) if (first := peek(heaps[kind]))]
        return min(firsts, key=_place) if firsts else None


def is_due(job: Job, now: int) -> bool:
    return job.status == "queued" and job.available_at <= now


def _place(job: Job) -> _Place:
    return job.priority, job.available_at, job.enqueued_seq


def _peek(heap: list[_Entry]) -> Job | None:
    while heap:
        if _is_current(heap[0]):
            return heap[0][2]
        heappop(heap)
    return None


def _search(heap: list[_Entry], prefix: str) -> Job | None:
    """The first job whose name starts with `prefix`, anywhere in the line."""
    waiting = (entry[2] for entry in heap if _is_current(entry) and entry[2].job_id.startswith(prefix))
    return min(waiting, key=_place, default=None)


def _is_current(entry: _Entry) -> bool:
    place, _, job = entry
    return job.status == "queued" and place == _place(job)
