"""Whether transactions are so quick that somebody may run them who has other things to do."""

import time

MOMENT_SECONDS = 0.005
CALM = 20
"""For how many times as long as a transaction took too long none is risked, so that it is a small part of the time."""


class Pace:
    def __init__(self) -> None:
        self._quick_from = 0.0

    def note(self, seconds: float) -> None:
        """How long a commit took, in whichever thread: all else goes on at the same pace anywhere."""
        if seconds > MOMENT_SECONDS:
            self._quick_from = max(self._quick_from, time.monotonic() + CALM * (seconds - MOMENT_SECONDS))

    @property
    def is_quick(self) -> bool:
        return time.monotonic() >= self._quick_from
