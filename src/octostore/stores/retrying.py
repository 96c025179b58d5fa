"""Retry a store that fails for a moment."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from octostore.stores.base import TryAgain

T = TypeVar("T")

GIVE_UP_SECONDS = 5.0
PAUSE_SECONDS, PAUSE_MAX_SECONDS = 0.02, 0.5


def deadline_from_now() -> float:
    """When to stop retrying; an attempt that starts later is the last.

    There is always one more attempt: a process that was paused during its first has had no other.
    """
    return time.monotonic() + GIVE_UP_SECONDS


def pauses() -> Iterator[float]:
    from octostore.stores import pausing  # noqa: PLC0415  # failures are rare

    return pausing.pauses(PAUSE_SECONDS, PAUSE_MAX_SECONDS)


def retrying(attempt: Callable[[], T]) -> T:
    """Retry until `attempt` succeeds or time is up, then raise `Unreachable`."""
    deadline = deadline_from_now()
    pausing: Iterator[float] | None = None
    while True:
        began_at = time.monotonic()
        try:
            return attempt()
        except TryAgain as failed:
            if began_at > deadline:
                raise failed.fault from failed
            pausing = pausing or pauses()
            time.sleep(next(pausing))
