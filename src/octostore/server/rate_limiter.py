"""How often somebody may: a bucket that fills at a steady rate and holds two seconds' worth."""

import math
import time

MAX_BUCKETS = 10_000
BURST_SECONDS = 2


class RateLimiter:
    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second * BURST_SECONDS)
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, who: str, count: float = 1, taken: int = 0) -> int:
        """0 if `who` may so often, and that is counted; otherwise how many milliseconds to wait.

        `taken` of them have been counted before.
        """
        now = time.monotonic()
        level = self._level(who, now)
        count = min(count, self._burst)  # or it would never be possible
        if level + taken < count:
            return math.ceil((count - level) / self._per_second * 1_000)  # those are counted again when it comes again
        if len(self._buckets) >= MAX_BUCKETS:
            self._drop_full_ones(now)
        self._buckets[who] = (level + taken - count, now)
        return 0

    def _level(self, who: str, now: float) -> float:
        level, then = self._buckets.get(who, (self._burst, now))
        return min(self._burst, level + (now - then) * self._per_second)

    def _drop_full_ones(self, now: float) -> None:
        self._buckets = {who: bucket for who, bucket in self._buckets.items() if self._level(who, now) < self._burst}
