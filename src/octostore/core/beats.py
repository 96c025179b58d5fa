"""One rule for every heartbeat: three per TTL. An owner that has missed two is late.

Only the lock routes advertise another pace (`server/routes/locks.py`).
"""

from datetime import datetime
from typing import Protocol

BEATS_PER_TTL = 3
LATE_SHARE = (BEATS_PER_TTL - 1) / BEATS_PER_TTL
"""An owner is late after this share of its TTL without a heartbeat: until then, a lost heartbeat can be repeated."""


def renew_after(remaining_ms: int) -> int:
    return remaining_ms // BEATS_PER_TTL


def late_at(expires_at: int, ttl_ms: int) -> int:
    """Measured from the expiry, not from the last heartbeat: a claim's heartbeats do not extend its session."""
    return expires_at - ttl_ms // BEATS_PER_TTL


def is_late(heartbeat_at: datetime, expires_at: datetime, now: datetime) -> bool:
    """Without knowing the TTL."""
    return now - heartbeat_at >= (expires_at - heartbeat_at) * LATE_SHARE


class Reporting(Protocol):
    """An owner that may have to report progress."""

    @property
    def max_silence_ms(self) -> int | None: ...

    @property
    def last_progress_at(self) -> int | None: ...


def is_stuck(claim: Reporting, now: int) -> bool:
    """Alive or not, it has not reported progress in time. Never true if no `max_silence` was set."""
    silence_ms, since = claim.max_silence_ms, claim.last_progress_at
    return silence_ms is not None and since is not None and now - since >= silence_ms
