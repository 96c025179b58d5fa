"""`events --verify`: whether log and store agree, for people and for scripts."""

import os
import sys
import time

import msgspec

from octostore.cli import exits, words
from octostore.cli.command import Context
from octostore.cli.console import Console
from octostore.core.verify import PROBLEMS_TOLD, Verification

PAINTED_EVERY_SECONDS = 0.1


def verify(context: Context) -> int:
    with context.place.open() as store:
        progress = Progress()
        try:
            found = store.verify(progress.tell)
        finally:
            progress.clear()
    document = {"is_sound": found.is_sound, **msgspec.structs.asdict(found)}
    context.console.answer(document, *_lines(found, context.console))
    return exits.DID if found.is_sound else exits.OUR_FAULT


def _lines(found: Verification, console: Console) -> list[str]:
    counts = {"event": found.events, "claim": found.claims, "job": found.jobs, "session": found.sessions}
    looked_at = ", ".join(words.counted(number, noun) for noun, number in counts.items())
    looked_at = f"{looked_at}; up to event {found.last_seq:,}"
    if found.is_sound:
        return [f"{console.style('sound', 'green')}  {looked_at}"]
    more = " or more" if len(found.problems) == PROBLEMS_TOLD else ""
    verdict = f"{words.counted(len(found.problems), 'problem')}{more}"
    return [f"{console.style('not sound', 'red')}  {verdict}: {looked_at}", *map(words.gist, found.problems)]


class Progress:
    """How far it is, on one line that is painted over; where nobody watches, nothing."""

    def __init__(self) -> None:
        self._is_watched = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._painted_at = 0.0

    def tell(self, seq: int) -> None:
        if self._is_watched and time.monotonic() - self._painted_at >= PAINTED_EVERY_SECONDS:
            self._painted_at = time.monotonic()
            self._paint(f"octostore: at event {seq:,} …")

    def clear(self) -> None:
        if self._painted_at:
            self._paint("")

    def _paint(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
