"""`events --verify`: check whether the log and the store agree."""

import os
import sys
import time

import msgspec

from octostore.cli import exit_codes, words
from octostore.cli.console import Console
from octostore.cli.subcommands import Context
from octostore.core.verify import PROBLEMS_SHOWN, Verification

PAINTED_EVERY_SECONDS = 0.1


def verify(context: Context) -> int:
    with context.address.open() as store:
        progress = Progress()
        try:
            found = store.verify(progress.show)
        finally:
            progress.clear()
    document = {"is_sound": found.is_sound, **msgspec.structs.asdict(found)}
    context.console.print_result(document, *_lines(found, context.console))
    return exit_codes.SUCCESS if found.is_sound else exit_codes.INTERNAL_ERROR


def _lines(found: Verification, console: Console) -> list[str]:
    counts = {"event": found.events, "claim": found.claims, "job": found.jobs, "session": found.sessions}
    looked_at = ", ".join(words.count(number, noun) for noun, number in counts.items())
    skipped = f" (skipped {found.skipped:,} that kept changing)" if found.skipped else ""
    looked_at = f"{looked_at}{skipped}; up to event {found.last_seq:,}"
    if found.is_sound:
        return [f"{console.style('sound', 'green')}  {looked_at}"]
    more = " or more" if len(found.problems) == PROBLEMS_SHOWN else ""
    verdict = f"{words.count(len(found.problems), 'problem')}{more}"
    return [f"{console.style('not sound', 'red')}  {verdict} in {looked_at}", *map(words.one_line, found.problems)]


class Progress:
    """The current position, on one line of the terminal. Prints nothing elsewhere."""

    def __init__(self) -> None:
        self._is_watched = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._painted_at = 0.0

    def show(self, seq: int) -> None:
        if self._is_watched and time.monotonic() - self._painted_at >= PAINTED_EVERY_SECONDS:
            self._painted_at = time.monotonic()
            self._paint(f"octostore: at event {seq:,} …")

    def clear(self) -> None:
        if self._painted_at:
            self._paint("")

    def _paint(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
