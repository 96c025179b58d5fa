"""When a worker loop ends by itself."""

import threading

import msgspec

from octostore.core.errors import InvalidInput
from octostore.core.limits import check_whole
from octostore.core.replies import ClaimReply

JOBS_MAX = 2**31


class WorkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing can be claimed now (`until_empty`), all are done or dead (`until_done`), or `max_jobs` were handled."""

    until_empty: bool = False
    until_done: bool = False
    max_jobs: int | None = None

    def __post_init__(self) -> None:
        if self.until_empty and self.until_done:
            raise InvalidInput("until_done", "cannot be combined with until_empty, which ends earlier")
        if self.max_jobs is not None:
            check_whole("max_jobs", self.max_jobs, 1, JOBS_MAX)

    def is_reached(self, reply: ClaimReply) -> bool:
        """Whether a reply that is not `claimed` ends the loop."""
        return self.until_empty or (self.until_done and bool(reply.all_done))

    def budget(self) -> "JobBudget":
        return JobBudget(self.max_jobs)


class JobBudget:
    """How many jobs the workers of a loop may still start, together."""

    def __init__(self, number: int | None) -> None:
        self._left = None if number is None else threading.Semaphore(number)

    def take(self) -> bool:
        return self._left is None or self._left.acquire(blocking=False)


class Turn:
    """One worker's share of the budget for one job. It keeps it until it starts one."""

    def __init__(self, budget: JobBudget) -> None:
        self._budget = budget
        self._has_it = False

    def take(self) -> bool:
        self._has_it = self._has_it or self._budget.take()
        return self._has_it

    def use(self) -> None:
        self._has_it = False
