"""A progress bar for slow commands."""

import sys
import time
from types import TracebackType
from typing import Self

QUIET_SECONDS = 0.5
"""Faster commands show no bar."""
WIDTH = 30


class ProgressBar:
    """On stderr, if that is a terminal. Erased at the end."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown_at = time.monotonic() + QUIET_SECONDS
        self._is_shown = False

    def show(self, done: int, total: int) -> None:
        share = done / total if total else 1.0
        filled = round(share * WIDTH)
        self._draw(f"[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%} {self._what}")

    def count(self, done: int) -> None:
        """Show a count without a known total."""
        self._draw(f"{done:,} {self._what}")

    def _draw(self, text: str) -> None:
        if not sys.stderr.isatty() or time.monotonic() < self._shown_at:
            return
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
