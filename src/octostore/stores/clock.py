"""Time, as stores and clients use it. Nothing else in the library reads a clock."""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Milliseconds since 1970. A store's time is never before `at_least`, the latest moment that it has used."""

    def __call__(self, at_least: int) -> int: ...


class SystemClock:
    """The machine's clock, except that it goes on at its usual pace when somebody sets that clock back.

    With only "never backwards", a clock that was an hour ahead and is corrected would stand still for that hour, and no
    lease would end. That holds for `at_least`, too: from there on, time goes on.
    """

    def __init__(
        self,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        elapsed_ms: Callable[[], int] = lambda: int(boottime() * 1_000),
    ) -> None:
        self._wall_ms = wall_ms
        self._elapsed_ms = elapsed_ms
        self._last = (wall_ms(), elapsed_ms())

    def __call__(self, at_least: int = 0) -> int:
        last_ms, last_elapsed_ms = self._last
        elapsed_ms = self._elapsed_ms()
        now_ms = max(self._wall_ms(), last_ms + elapsed_ms - last_elapsed_ms, at_least)
        self._last = (now_ms, elapsed_ms)
        return now_ms


_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds that pass also while the machine sleeps, where the system can tell: a lease does not sleep with it."""
    return time.clock_gettime(_BOOTTIME)
