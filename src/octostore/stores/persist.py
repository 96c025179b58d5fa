"""A place that fails for a moment, and is back in the next one."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from octostore.stores.base import Undone

T = TypeVar("T")

GIVE_UP_SECONDS = 5.0
PAUSE_SECONDS, PAUSE_MAX_SECONDS = 0.02, 0.5


def persist(attempt: Callable[[], T]) -> T:
    """Try until it is done, or it is time to say that it cannot be: `Unreachable`.

    Once more after that time, too: whoever was stopped in the middle of the first attempt has had no other.
    """
    deadline = time.monotonic() + GIVE_UP_SECONDS
    pause = PAUSE_SECONDS
    is_last = False
    while True:
        try:
            return attempt()
        except Undone as undone:
            if is_last:
                raise undone.fault from undone
            is_last = time.monotonic() + pause > deadline
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311  # spreads load
            pause = min(2 * pause, PAUSE_MAX_SECONDS)
