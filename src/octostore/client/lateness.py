"""How late a process gets its turn on a busy machine, and how much of a lease it keeps in hand because of that.

Whoever waits for a moment sees how late it wakes, which is all the measuring there is. See decision 37.
"""

import math
import time
from collections.abc import Callable

from octostore.core.beats import LATE_SHARE
from octostore.core.errors import InvalidInput
from octostore.stores.clock import boottime

SAFETY = 3.0
"""The next delay may be longer than any that was seen, but hardly more than this many times as long."""
HALF_LIFE_SECONDS = 10.0
"""For how long a delay is remembered."""
DELAY_MAX_SECONDS = 1.0
"""What is later was paused (a signal, a lid that was closed), against which no margin helps."""
MARGIN_SHARE_MAX = 1 - LATE_SHARE
"""Of the TTL, how much can be kept in hand at most: before that, an owner is not even late."""
NAPS, NAPS_IF_BUSY = 5, 25
NAP_SECONDS = 0.002
BUSY_SECONDS = 0.005
"""Who wakes so late has not seen the worst in a few naps."""


class Lateness:
    """The longest delay of late. `now` is a moment of `boottime`."""

    def __init__(self) -> None:
        self._worst = 0.0
        self._noted_at = -math.inf

    def note(self, due_at: float, now: float) -> bool:
        """Whether this is the longest."""
        late, worst = min(now - due_at, DELAY_MAX_SECONDS), self.worst(now)
        self._worst, self._noted_at = max(late, worst), now
        return late > worst

    def worst(self, now: float) -> float:
        return self._worst * math.pow(0.5, max(0.0, now - self._noted_at) / HALF_LIFE_SECONDS)

    def is_known(self, now: float) -> bool:
        return now - self._noted_at < HALF_LIFE_SECONDS

    def measure(self, act: Callable[[], object] = lambda: None) -> None:
        """Take some naps, and `act` after each, for who cannot wait until something was due."""
        for number in range(NAPS_IF_BUSY):
            if number == NAPS and self.worst(boottime()) < BUSY_SECONDS:
                break
            due_at = boottime() + NAP_SECONDS
            time.sleep(NAP_SECONDS)
            act()
            self.note(due_at, boottime())


own_lateness = Lateness()
"""That of this process, for its own claims: noted by the thread of its heartbeats."""


def safety_margin(ttl: float, *delays: float) -> float:
    """How long before the end of a lease to act, for everything to be over by then: `delays` come one after another."""
    return min(SAFETY * sum(delays), ttl * MARGIN_SHARE_MAX)


def smallest_ttl(*delays: float) -> float:
    """With which all that is needed can be kept in hand; rounded up to a tenth."""
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
    """For a claim that is to be held by this process."""
    if must_measure(ttl):
        own_lateness.measure()
    check_ttl_is_safe(ttl, own_lateness.worst(boottime()))


def must_measure(ttl: float) -> bool:
    """Not for a TTL that can be kept whatever comes out."""
    return ttl < smallest_ttl(DELAY_MAX_SECONDS) and not own_lateness.is_known(boottime())
