"""How often and how long to try: bounded, and spread out so that clients of a restarted server do not come at once."""

import time
import weakref
from collections.abc import Callable
from typing import ClassVar

from octostore.client.http.calls import HttpCall
from octostore.core.errors import Unreachable
from octostore.stores.base import TryAgain
from octostore.stores.pausing import pauses

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
"""How long an answer may take, beyond what the call itself waits for; a busy store may take 10 seconds."""
BEAT_SECONDS = 5.0
"""The same for a heartbeat, which is better tried again."""
GIVE_UP_SECONDS = 8.0
"""For how long a call is repeated."""
FOLLOW_GIVE_UP_SECONDS = 60.0
"""For how long somebody who follows the log tries to come back."""
STREAM_SECONDS = 45.0
"""How long a stream may be silent: the server sends a sign of life every 15 seconds."""
POLL_SECONDS = 50.0
"""How long one call waits at most; longer waits are several calls. Servers allow 60, and proxies often the same."""
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0


class RetryBudget:
    """Pauses between attempts of one call; `after` raises what went wrong when it is time to give up.

    `wait` is for how long the call itself waits for something to happen.
    """

    on_new: "ClassVar[Callable[[weakref.ref[RetryBudget]], None] | None]" = None
    """Told of every call, for whoever shows people that they wait. When a call is over, the reference is dead."""

    def __init__(self, seconds: float, wait: float = 0.0) -> None:
        self.until = time.monotonic() + seconds + wait
        self.is_waiting = wait > 0
        self.fault: Unreachable | None = None
        """What went wrong with the last attempt, at `failed_at`."""
        self.failed_at = 0.0
        self._pauses = pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        if RetryBudget.on_new is not None:
            RetryBudget.on_new(weakref.ref(self))

    def pause_after(self, failed: TryAgain, call: HttpCall | None = None) -> float:
        """How long to pause before the next attempt."""
        pause = max(next(self._pauses), failed.pause_ms / 1_000)
        self.fault, self.failed_at = failed.fault, time.monotonic()
        may_repeat = call is None or call.is_repeatable or not failed.was_taken
        if not may_repeat:
            self.until = self.failed_at
            problem = f"{failed.fault}. The call may still have worked: look before you repeat it"
            raise Unreachable(problem, reason=failed.fault.reason) from None
        if self.failed_at + pause > self.until:
            self.until = self.failed_at
            raise failed.fault from None
        return pause


def time_left(until: float) -> float:
    """Seconds, on the clock that only counts."""
    return max(0.0, until - time.monotonic())
