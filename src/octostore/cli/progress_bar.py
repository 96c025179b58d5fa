"""How far a slow command has come."""

import os
import sys
import time
from types import TracebackType
from typing import Self

QUIET_SECONDS = 0.5
"""Faster commands show nothing."""
INTERVAL_SECONDS = 0.1
"""The shortest time between two updates."""
WIDTH = 30


class ProgressBar:
    """On one line of stderr, if that is a terminal. Erased at the end. `what` is a past participle."""

    def __init__(self, what: str = "") -> None:
        self._what = what
        self._is_watched = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next_at = time.monotonic() + QUIET_SECONDS
        self._is_shown = False

    def show(self, done: int, total: int) -> None:
        share = done / total if total else 1.0
        filled = round(share * WIDTH)
        self.say(f"[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%} {self._what}")

    def count(self, done: int) -> None:
        """Show a count without a known total."""
        self.say(f"{done:,} {self._what}")

    def say(self, text: str) -> None:
        """Each text is at least as long as the one before."""
        if not self._is_watched or time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + INTERVAL_SECONDS
        sys.stderr.write(f"\r{text}")
        sys.stderr.flush()
        self._is_shown = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
