"""When a keeper gives a claim back: pure, with all times given."""

from octostore.keeping.leases import KeptLease

MAX_SILENCE_DEFAULT_SECONDS = 600.0


class Silence:
    """How long an owner has shown no sign of life.

    Signs carry the time of the clock, which people set. What passes between them is counted on one that only counts:
    `now` is a moment of `boottime`.
    """

    def __init__(self, limit: float, now: float) -> None:
        """The claim itself is a sign of life."""
        self._limit = limit
        self._since = now
        self._shown_at: float | None = None

    def note(self, shown_at: float | None, clock: float, now: float) -> None:
        """The last sign was at `shown_at`, as the clock tells it, which shows `clock` now."""
        if shown_at is not None and shown_at != self._shown_at:
            self._shown_at = shown_at
            age = min(max(0.0, clock - shown_at), now - self._since)
            self._since = now - age

    def left(self, now: float) -> float:
        """Seconds until the owner has been silent for too long; 0 if it has."""
        return max(0.0, self._since + self._limit - now)


def why_to_end(
    lease: KeptLease, *, is_filed: bool, is_watched_gone: bool, silence_left: float, is_told: bool
) -> str | None:
    """The note for the next owner; None while the claim is to be kept.

    `is_filed`: the file of the lease is where it was. `is_told`: somebody wants the keeper to end.
    """
    if not is_filed:
        return "released by its keeper: the file with its lease was deleted"
    if is_watched_gone:
        return f"released by its keeper: {lease.watched} has ended"
    if silence_left <= 0:
        return f"released by its keeper: no sign of life from {lease.owner} for {lease.max_silence:g} s"
    return "released by its keeper, which was told to stop" if is_told else None
