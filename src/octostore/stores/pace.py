"""Whether commits are currently fast enough to run in a thread that has other work to do."""

import time

MOMENT_SECONDS = 0.005
CALM = 20
"""After a slow commit, leave commits to the writer for this many times as long, so that stalls stay rare."""


class Pace:
    def __init__(self) -> None:
        self._quick_from = 0.0

    def note(self, seconds: float) -> None:
        """Record how long a commit took, in any thread."""
        if seconds > MOMENT_SECONDS:
            self._quick_from = max(self._quick_from, time.monotonic() + CALM * (seconds - MOMENT_SECONDS))

    @property
    def is_quick(self) -> bool:
        return time.monotonic() >= self._quick_from
