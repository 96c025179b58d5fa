"""The jobs of a queue in the order in which they will run, and a position in it at which a page can continue.

First the ready ones: lowest priority, then earliest due, then oldest. Then those due later, in order of time. Then
those that are not waiting, by name: claimed, dead, done.
"""

from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from octostore.core.errors import InvalidInput
from octostore.core.limits import PRIORITY_MIN, SEQ_MAX
from octostore.core.model import Job, Status
from octostore.core.names import check_job_id

Part: TypeAlias = Literal["ready", "later", "claimed", "dead", "done"]
PARTS: tuple[Part, ...] = get_args(Part)
Key: TypeAlias = tuple[Any, ...]
"""The sort key within a part: three numbers for waiting jobs, else the name."""

_WAITING = {"ready", "later"}
_BEFORE_ALL: dict[str, Key] = {"ready": (PRIORITY_MIN - 1, 0, 0), "later": (-1, 0, 0)}
_SEPARATOR = ","
"""Not allowed in names, so a position cannot be mistaken for one."""


class RunPosition(msgspec.Struct, frozen=True):
    """Just after the job with this key. What was ready at `moment` stays in that part from page to page."""

    moment: int
    part: Part
    key: Key

    def __str__(self) -> str:
        return _SEPARATOR.join(map(str, (self.moment, self.part, *self.key)))

    def is_after(self, other: "RunPosition") -> bool:
        """Within the same part."""
        return self.part == other.part and self.key > other.key


def beginning(moment: int, part: Part = "ready") -> RunPosition:
    return RunPosition(moment, part, _BEFORE_ALL.get(part, ("",)))


def position_of(job: Job, moment: int) -> RunPosition:
    part = part_of(job, moment)
    if part == "ready":
        return RunPosition(moment, part, (job.priority, job.available_at, job.enqueued_seq))
    if part == "later":
        return RunPosition(moment, part, (job.available_at, job.priority, job.enqueued_seq))
    return RunPosition(moment, part, (job.job_id,))


def part_of(job: Job, moment: int) -> Part:
    if job.status == "queued":
        return "ready" if job.available_at <= moment else "later"
    return cast("Part", job.status)


def parts_of(status: Status | None) -> tuple[Part, ...]:
    if status is None:
        return PARTS
    return ("ready", "later") if status == "queued" else tuple(part for part in PARTS if part == status)


def parse_position(text: str) -> RunPosition:
    try:
        moment, part, *key = text.split(_SEPARATOR)
        if part in _WAITING and len(key) == len(_BEFORE_ALL[part]):
            return RunPosition(_number(moment), cast("Part", part), tuple(map(_number, key)))
        if part in PARTS and part not in _WAITING and len(key) == 1:
            check_job_id("cursor", key[0])
            return RunPosition(_number(moment), part, (key[0],))
    except (AttributeError, ValueError, InvalidInput):
        pass
    raise InvalidInput("cursor", "is not the cursor of a page in run order")


def _number(text: str) -> int:
    number = int(text)
    if abs(number) > SEQ_MAX:
        raise ValueError(text)
    return number
