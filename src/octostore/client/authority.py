"""How long a client may still act as owner. It gives up before the store does."""

import math
import threading
from collections.abc import Callable

from octostore.client.lateness import Lateness, own_lateness, safety_margin
from octostore.stores.clock import boottime

MARGIN_SHARE = 0.02
MARGIN_MIN_SECONDS = 0.05
MARGIN_MAX_SECONDS = 2.0
"""What is left of a lease when its owner stops, for clocks that run at different speeds; on a busy machine, more."""


class Authority:
    """Counted from *before* the request that was answered, on a clock that also counts while the machine sleeps.

    The store counts from later, so it cannot have given the job away while `remaining()` is positive, nor when whoever
    asked gets its next turn, as late as `lateness` knows that to be.
    """

    def __init__(self, clock: Callable[[], float] = boottime, lateness: Lateness = own_lateness) -> None:
        self.on_renewed: Callable[[float], None] | None = None
        """Told until when it lasts, every time that this becomes later."""
        self._clock = clock
        self._lateness = lateness
        self._ttl = 0.0
        self._lock = threading.Lock()
        self._ends_at = -math.inf
        self._is_over = False

    def now(self) -> float:
        return self._clock()

    @property
    def ends_at(self) -> float:
        """On the clock of `now`; long ago where there is none. For those who know themselves how late they may be."""
        return self._ends_at

    @property
    def gives_up_at(self) -> float:
        return self._ends_at - safety_margin(self._ttl, self._lateness.worst(self._clock()))

    def renew(self, asked_at: float, remaining_ms: int) -> None:
        remaining = remaining_ms / 1_000
        margin = min(max(MARGIN_MIN_SECONDS, remaining * MARGIN_SHARE), MARGIN_MAX_SECONDS)
        with self._lock:
            if self._is_over:
                return
            # Answers may come in another order than they were asked for.
            self._ends_at = max(self._ends_at, asked_at + remaining - margin)
            self._ttl = remaining
            ends_at = self._ends_at
        if self.on_renewed is not None:
            self.on_renewed(ends_at)

    def end(self) -> None:
        """Give it up for good: an answer that is still under way does not bring it back."""
        with self._lock:
            self._ends_at = -math.inf
            self._is_over = True

    def remaining(self) -> float:
        """Seconds; never below 0."""
        return max(0.0, self.gives_up_at - self._clock())
