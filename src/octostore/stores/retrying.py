"""A place that fails for a moment, and is back in the next one."""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from octostore.stores.base import TryAgain

T = TypeVar("T")

GIVE_UP_SECONDS = 5.0
PAUSE_SECONDS, PAUSE_MAX_SECONDS = 0.02, 0.5


def deadline_from_now() -> float:
    """Until when to be patient; an attempt that begins later is the last one.

    There is always one: whoever was stopped in the middle of the first attempt has had no other.
    """
    return time.monotonic() + GIVE_UP_SECONDS


def pauses() -> Iterator[float]:
    from octostore.stores import pausing  # noqa: PLC0415  # few places ever fail

    return pausing.pauses(PAUSE_SECONDS, PAUSE_MAX_SECONDS)


def retrying(attempt: Callable[[], T]) -> T:
    """Try until it is done, or it is time to say that it cannot be: `Unreachable`."""
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
