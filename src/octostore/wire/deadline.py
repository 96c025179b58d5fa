"""How long a caller waits for its answer, which it says with every request: after that, nothing must be done for it."""

DEADLINE_HEADER = "X-OctoStore-Deadline-Ms"
"""Milliseconds from when the request was sent. Not a moment: clocks of two machines differ, and patience does not."""
DEADLINE_MAX_MS = 86_400_000


def deadline_header(seconds: float) -> dict[str, str]:
    return {DEADLINE_HEADER: str(max(1, round(seconds * 1_000)))}
