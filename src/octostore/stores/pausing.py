"""Jittered pauses before a retry: those who failed together must not all come back together."""

import random
from collections.abc import Iterator


def jittered(seconds: float) -> float:
    """About this long."""
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311  # spreads load; not a secret


def pauses(first_seconds: float, longest_seconds: float) -> Iterator[float]:
    """Each about twice as long as the last."""
    pause = first_seconds
    while True:
        yield jittered(pause)
        pause = min(2 * pause, longest_seconds)
