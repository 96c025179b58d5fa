"""Time, as stores and clients use it. Nothing else in the library reads a clock."""

import time
import uuid
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Mark(NamedTuple):
    """A moment a store has used (milliseconds since 1970), and the reading of the monotonic clock at that moment.

    It is saved with every change, so that all processes continue from the same mark. If each continued from its own,
    one could be ahead of another and end its leases early.
    """

    now: int
    boot_id: str
    """The boot during which the monotonic clock was read."""
    counted_ms: int


class Clock(Protocol):
    """The current time in a store whose latest mark is `last`; never before it."""

    def __call__(self, last: Mark) -> Mark: ...


_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds on a clock that keeps counting during suspend, if the system has one: leases do not sleep."""
    return time.clock_gettime(_BOOTTIME)


def _read_boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        # Not Linux. Each process then continues from the mark on its own.
        return uuid.uuid4().hex


_BOOT_ID = _read_boot_id()


class SystemClock:
    """The machine's clock, except that time keeps passing at its usual pace if the clock is set back.

    If it merely never ran backwards, correcting a clock that was an hour ahead would freeze it for an hour, and no
    lease would expire.
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
        # In this order: if we are paused in between, the mark lags a little and is never ahead.
        wall_ms = self._wall_ms()
        counted_ms = self._counted_ms()
        elapsed_ms = max(0, counted_ms - last.counted_ms) if last.boot_id == self._boot_id else 0
        return Mark(max(wall_ms, last.now + elapsed_ms), self._boot_id, counted_ms)


def as_stored(last: Mark) -> Mark:
    """For stores with their own clock, which report the time with their counters."""
    return last
