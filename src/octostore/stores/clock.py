"""Time, as stores and clients use it. Nothing else in the library reads a clock."""

import time
import uuid
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Mark(NamedTuple):
    """A moment that a store has used (milliseconds since 1970), and what the clock that only counts showed then.

    It is saved with every change, so that all processes go on from the same mark: if each went on from what itself had
    seen, one could be ahead of another, and end its leases early.
    """

    now: int
    boot_id: str
    """Which start of the machine the count belongs to."""
    counted_ms: int


class Clock(Protocol):
    """The time now, in a store whose latest mark is `last`. Never before it."""

    def __call__(self, last: Mark) -> Mark: ...


_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds that pass also while the machine sleeps, where the system can tell: a lease does not sleep with it."""
    return time.clock_gettime(_BOOTTIME)


def _read_boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        # No such thing here. Then each process goes on from the mark by itself.
        return uuid.uuid4().hex


_BOOT_ID = _read_boot_id()


class SystemClock:
    """The machine's clock, except that time goes on at its usual pace when somebody sets that clock back.

    With only "never backwards", a clock that was an hour ahead and is corrected would stand still for that hour, and no
    lease would end.
    """

    def __init__(
        self,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        counted_ms: Callable[[], int] = lambda: int(boottime() * 1_000),
        boot_id: str = _BOOT_ID,
    ) -> None:
        self._wall_ms = wall_ms
        self._counted_ms = counted_ms
        self._boot_id = boot_id

    def __call__(self, last: Mark) -> Mark:
        # In this order: should we be stopped in between, the mark is a little behind, and never ahead.
        wall_ms = self._wall_ms()
        counted_ms = self._counted_ms()
        elapsed_ms = max(0, counted_ms - last.counted_ms) if last.boot_id == self._boot_id else 0
        return Mark(max(wall_ms, last.now + elapsed_ms), self._boot_id, counted_ms)


def as_stored(last: Mark) -> Mark:
    """For a store that has a clock of its own, and tells the time with its counters."""
    return last
