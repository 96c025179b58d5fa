"""When a keeper releases a claim: pure, with all times passed in."""

from octostore.keeping.leases import KeptLease

MAX_SILENCE_DEFAULT_SECONDS = 600.0


class Silence:
    """How long an owner has been silent.

    Activity carries wall-clock time, which people change. Time between activities is counted on a monotonic clock:
    `now` is a `boottime`.
    """

    def __init__(self, limit: float, now: float) -> None:
        """The claim itself counts as activity."""
        self._limit = limit
        self._since = now
        self._shown_at: float | None = None

    def note(self, shown_at: float | None, clock: float, now: float) -> None:
        """The last activity was at `shown_at` on a wall clock that reads `clock` now."""
        if shown_at is not None and shown_at != self._shown_at:
            self._shown_at = shown_at
            age = min(max(0.0, clock - shown_at), now - self._since)
            self._since = now - age

    def left(self, now: float) -> float:
        """Seconds until the owner has been silent for too long; 0 if it has."""
        return max(0.0, self._since + self._limit - now)


def why_to_end(
    lease: KeptLease, *, is_filed: bool, is_watched_gone: bool, silence_left: float, is_asked_to_stop: bool
) -> str | None:
    """The note for the next owner; None while the claim is kept.

    `is_filed`: the lease file is still there. `is_asked_to_stop`: the keeper was asked to stop.
    """
    if not is_filed:
        return "released by its keeper: the file with its lease was deleted"
    if is_watched_gone:
        return f"released by its keeper: {lease.watched} has ended"
    if silence_left <= 0:
        return f"released by its keeper: no octostore command from {lease.owner} for {lease.max_silence:g} s"
    return "released by its keeper, which was asked to stop" if is_asked_to_stop else None
