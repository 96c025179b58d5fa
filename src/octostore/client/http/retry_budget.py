"""How often and how long to retry: bounded, and spread out so that clients do not return to a server all at once."""

import time
import weakref
from collections.abc import Callable
from typing import ClassVar

from octostore.client.http.calls import HttpCall
from octostore.core.errors import Unreachable
from octostore.stores.base import TryAgain
from octostore.stores.pausing import pauses

CONNECT_SECONDS = 5.0
RESPONSE_SECONDS = 15.0
"""How long a response may take, beyond what the call itself waits for. A busy store may take 10 seconds."""
BEAT_SECONDS = 5.0
"""The same for a heartbeat: retrying it is better than waiting longer."""
GIVE_UP_SECONDS = 8.0
"""How long a call is retried."""
FOLLOW_GIVE_UP_SECONDS = 60.0
"""How long a caller that follows the log tries to reconnect."""
STREAM_SECONDS = 45.0
"""How long a stream may be silent: the server sends a keep-alive every 15 seconds."""
POLL_SECONDS = 50.0
"""The longest wait of one call; longer waits take several calls. Servers allow 60 seconds, and so do many proxies."""
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0


class RetryBudget:
    """The time for retries of one call, which may itself `wait` for something to happen."""

    on_new: "ClassVar[Callable[[weakref.ref[RetryBudget]], None] | None]" = None
    """Called with a weak reference to each new call, to show people that they are waiting."""

    def __init__(self, seconds: float, wait: float = 0.0) -> None:
        self.until = time.monotonic() + seconds + wait
        self.is_waiting = wait > 0
        self.fault: Unreachable | None = None
        """Why the last attempt failed; `failed_at` says when."""
        self.failed_at = 0.0
        self._unanswered: Unreachable | None = None
        """The fault of an attempt that may have worked."""
        self._pauses = pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        if RetryBudget.on_new is not None:
            RetryBudget.on_new(weakref.ref(self))

    def pause_after(self, failed: TryAgain, call: HttpCall | None = None) -> float:
        """How long to pause before the next attempt. Raises the fault if time is up, or if a repeat might do harm."""
        pause = max(next(self._pauses), failed.pause_ms / 1_000)
        self.fault, self.failed_at = failed.fault, time.monotonic()
        may_repeat = call is None or call.is_repeatable or not failed.was_taken
        if not may_repeat:
            self.until = self.failed_at
            problem = f"{failed.fault}. The call may still have worked: check before you repeat it"
            raise Unreachable(problem, reason=failed.fault.reason) from None
        if failed.was_taken:
            self._unanswered = failed.fault
        if self.failed_at + pause > self.until:
            self.until = self.failed_at
            raise self._final_fault(failed.fault) from None
        return pause

    def _final_fault(self, last: Unreachable) -> Unreachable:
        """`late` promises that nothing was done, which has to be true of every attempt."""
        return self._unanswered if self._unanswered is not None and last.reason == "late" else last


def time_left(until: float) -> float:
    """In seconds, on the monotonic clock."""
    return max(0.0, until - time.monotonic())
