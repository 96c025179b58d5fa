"""An agent that makes no call for `max_silence` seconds has stopped working, although its server still runs."""

from collections.abc import Callable
from typing import NamedTuple

MAX_SILENCE_SECONDS = 1_800.0
"""The default: longer than most builds take, and longer than most people take to answer a question."""


class Silence(NamedTuple):
    seconds: float
    lasts: Callable[[], bool]
    """Releasing takes time, during which the agent may call again; it then keeps what it still has."""


def silence_left(now: float, heard_at: float, max_silence: float | None, *, is_calling: bool) -> float | None:
    """Seconds until a silent agent loses its claims: 0 is now, None is never.

    A call in progress counts as activity, however long it waits.
    """
    if max_silence is None:
        return None
    return max_silence if is_calling else max(0.0, heard_at + max_silence - now)
