"""The deadline header: how long a caller waits for its response. A request that misses it must not take effect."""

DEADLINE_HEADER = "X-OctoStore-Deadline-Ms"
"""Milliseconds from when the request was sent: a duration, because the clocks of two machines differ."""
DEADLINE_MAX_MS = 86_400_000


def deadline_header(seconds: float) -> dict[str, str]:
    return {DEADLINE_HEADER: str(max(1, round(seconds * 1_000)))}
