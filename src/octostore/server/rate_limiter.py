"""Rate limits: a token bucket per source that holds two seconds' worth."""

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
        """Count `count` uses by `who` and return 0, or return how many milliseconds to wait.

        `taken` of them have been counted already.
        """
        now = time.monotonic()
        level = self._level(who, now)
        count = min(count, self._burst)  # otherwise a large count would never pass
        if level + taken < count:
            return math.ceil((count - level) / self._per_second * 1_000)  # a retry counts the `taken` ones again
        if len(self._buckets) >= MAX_BUCKETS:
            self._drop_full_buckets(now)
        self._buckets[who] = (level + taken - count, now)
        return 0

    def _level(self, who: str, now: float) -> float:
        level, then = self._buckets.get(who, (self._burst, now))
        return min(self._burst, level + (now - then) * self._per_second)

    def _drop_full_buckets(self, now: float) -> None:
        self._buckets = {who: bucket for who, bucket in self._buckets.items() if self._level(who, now) < self._burst}
