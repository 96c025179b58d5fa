"""How late the system schedules a process, and how long before the end of a lease it must therefore act.

It is measured whenever a thread waits for a moment: by how late it wakes. See decision 37.
"""

import math
import time
from collections.abc import Callable

from octostore.core.beats import LATE_SHARE
from octostore.core.errors import InvalidInput
from octostore.stores.clock import boottime

SAFETY = 3.0
"""The next delay may be longer than any seen so far, but rarely by more than this factor."""
HALF_LIFE_SECONDS = 10.0
"""How fast delays are forgotten."""
DELAY_MAX_SECONDS = 1.0
"""A longer delay means that the process was suspended (a signal, a closed lid), and no margin helps against that."""
MARGIN_SHARE_MAX = 1 - LATE_SHARE
"""The largest share of the TTL to use as a margin. With more, an owner would stop before it even counts as late."""
NAPS, NAPS_IF_BUSY = 5, 25
NAP_SECONDS = 0.002
BUSY_SECONDS = 0.005
"""After a delay this long, a few naps are not enough to measure the worst delay."""


class Lateness:
    """The longest recent delay. `now` is on the clock of `boottime`."""

    def __init__(self) -> None:
        self._worst = 0.0
        self._noted_at = -math.inf

    def note(self, due_at: float, now: float) -> bool:
        """Return whether this is the longest."""
        late, worst = min(now - due_at, DELAY_MAX_SECONDS), self.worst(now)
        self._worst, self._noted_at = max(late, worst), now
        return late > worst

    def worst(self, now: float) -> float:
        return self._worst * math.pow(0.5, max(0.0, now - self._noted_at) / HALF_LIFE_SECONDS)

    def is_known(self, now: float) -> bool:
        return now - self._noted_at < HALF_LIFE_SECONDS

    def measure(self, act: Callable[[], object] = lambda: None) -> None:
        """Take some naps, and `act` after each. For a caller that needs to know now."""
        for number in range(NAPS_IF_BUSY):
            if number == NAPS and self.worst(boottime()) < BUSY_SECONDS:
                break
            due_at = boottime() + NAP_SECONDS
            time.sleep(NAP_SECONDS)
            act()
            self.note(due_at, boottime())


own_lateness = Lateness()
"""The delays of this process, measured by the thread that sends heartbeats, and before a claim with a short TTL."""


def safety_margin(ttl: float, *delays: float) -> float:
    """How long before a lease ends to act, so that everything is over by then. The `delays` add up."""
    return min(SAFETY * sum(delays), ttl * MARGIN_SHARE_MAX)


def smallest_ttl(*delays: float) -> float:
    """The shortest TTL that leaves room for the margin, rounded up to a tenth of a second."""
    return math.ceil(SAFETY * sum(delays) / MARGIN_SHARE_MAX * 10) / 10


def check_ttl_is_safe(ttl: float, *delays: float) -> None:
    smallest = smallest_ttl(*delays)
    if ttl < smallest:
        raise InvalidInput(
            "ttl",
            f"of {ttl:g} seconds is too short: this machine is so busy that processes are scheduled up to "
            f"{max(delays):.2f} seconds late. The shortest safe TTL right now is {smallest:g} seconds",
            limit=smallest,
            size=ttl,
        )


def check_ttl_is_safe_here(ttl: float) -> None:
    """For a claim that this process will hold."""
    if must_measure(ttl):
        own_lateness.measure()
    check_ttl_is_safe(ttl, own_lateness.worst(boottime()))


def must_measure(ttl: float) -> bool:
    """Not if the TTL is safe with any delay."""
    return ttl < smallest_ttl(DELAY_MAX_SECONDS) and not own_lateness.is_known(boottime())
