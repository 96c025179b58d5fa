"""How long a client may act as owner. It stops before the store takes the job away."""

import math
import threading
from collections.abc import Callable

from octostore.client.lateness import Lateness, own_lateness, safety_margin
from octostore.stores.clock import boottime

MARGIN_SHARE = 0.02
MARGIN_MIN_SECONDS = 0.05
MARGIN_MAX_SECONDS = 2.0
"""How long before its lease ends an owner stops, because clocks run at different speeds. Longer on a busy machine."""


class Authority:
    """Counts from *before* the request was sent, on a clock that also counts while the machine sleeps.

    The store counts from later, so no one else can have the job while `remaining()` is positive, nor until the caller
    is scheduled again, which takes as long as `lateness` has measured.
    """

    def __init__(self, clock: Callable[[], float] = boottime, lateness: Lateness = own_lateness) -> None:
        self.on_renewed: Callable[[float], None] | None = None
        """Called with the new end after each renewal."""
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
        """On the clock of `now`; long ago if there is none. For callers that know how late they may be scheduled."""
        return self._ends_at

    @property
    def deadline(self) -> float:
        """When the owner stops: earlier than `ends_at`, by how late it may be scheduled."""
        return self._ends_at - safety_margin(self._ttl, self._lateness.worst(self._clock()))

    def renew(self, asked_at: float, remaining_ms: int) -> None:
        remaining = remaining_ms / 1_000
        margin = min(max(MARGIN_MIN_SECONDS, remaining * MARGIN_SHARE), MARGIN_MAX_SECONDS)
        with self._lock:
            if self._is_over:
                return
            # Replies may arrive out of order.
            self._ends_at = max(self._ends_at, asked_at + remaining - margin)
            self._ttl = remaining
            ends_at = self._ends_at
        if self.on_renewed is not None:
            self.on_renewed(ends_at)

    def end(self) -> None:
        """End it for good: a reply that arrives later does not bring it back."""
        with self._lock:
            self._ends_at = -math.inf
            self._is_over = True

    def remaining(self) -> float:
        """In seconds, never below 0."""
        return max(0.0, self.deadline - self._clock())
