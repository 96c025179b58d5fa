"""When a worker loop has done limits."""

import threading

import msgspec

from octostore.core.errors import InvalidInput
from octostore.core.limits import check_whole
from octostore.core.replies import ClaimReply

JOBS_MAX = 2**31


class WorkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Once nothing can be claimed now (`until_empty`), every job is settled (`until_done`), or after `max_jobs`."""

    until_empty: bool = False
    until_done: bool = False
    max_jobs: int | None = None

    def __post_init__(self) -> None:
        if self.until_empty and self.until_done:
            raise InvalidInput("until_done", "cannot be combined with until_empty, which ends earlier")
        if self.max_jobs is not None:
            check_whole("max_jobs", self.max_jobs, 1, JOBS_MAX)

    def is_reached(self, reply: ClaimReply) -> bool:
        """Whether this answer, which is no claim, says so."""
        return self.until_empty or (self.until_done and bool(reply.all_done))

    def jobs(self) -> "JobBudget":
        return JobBudget(self.max_jobs)


class JobBudget:
    """Those that the workers of a loop may still begin, all together."""

    def __init__(self, number: int | None) -> None:
        self._left = None if number is None else threading.Semaphore(number)

    def take(self) -> bool:
        return self._left is None or self._left.acquire(blocking=False)


class Turn:
    """One worker's right to begin a job. It keeps it until it has got one."""

    def __init__(self, jobs: JobBudget) -> None:
        self._jobs = jobs
        self._has_it = False

    def take(self) -> bool:
        self._has_it = self._has_it or self._jobs.take()
        return self._has_it

    def use(self) -> None:
        self._has_it = False
