"""One rule for every heartbeat: three to a TTL. An owner whose second one has not come is late.

The lock routes alone tell their clients another pace (`server/routes/locks.py`).
"""

from datetime import datetime
from typing import Protocol

BEATS_PER_TTL = 3
LATE_SHARE = (BEATS_PER_TTL - 1) / BEATS_PER_TTL
"""Of the TTL. One heartbeat may be lost and come again without anybody having to look."""


def renew_after(remaining_ms: int) -> int:
    return remaining_ms // BEATS_PER_TTL


def late_at(expires_at: int, ttl_ms: int) -> int:
    """By the end, and not by the last sign of life: an owner's heartbeats do not prolong the session it is bound to."""
    return expires_at - ttl_ms // BEATS_PER_TTL


def is_late(heartbeat_at: datetime, expires_at: datetime, now: datetime) -> bool:
    """The same for those who do not know the TTL."""
    return now - heartbeat_at >= (expires_at - heartbeat_at) * LATE_SHARE


class Reporting(Protocol):
    """An owner that may have to report progress."""

    @property
    def max_silence_ms(self) -> int | None: ...

    @property
    def last_progress_at(self) -> int | None: ...


def is_stuck(claim: Reporting, now: int) -> bool:
    """Alive it may be. Where nobody said how long it may go without reporting progress, it never is."""
    silence_ms, since = claim.max_silence_ms, claim.last_progress_at
    return silence_ms is not None and since is not None and now - since >= silence_ms
