"""Where answers and remarks go: answers to stdout, for people or as JSON; remarks to stderr."""

import os
import select
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from threading import Thread
from typing import Any, TextIO

import msgspec

from octostore.cli.exits import BROKEN_PIPE
from octostore.cli.table import Row, as_table

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Console:
    def __init__(self, *, is_json: bool, out: TextIO | None = None) -> None:
        self.is_json = is_json
        self._out = sys.stdout if out is None else out
        if isinstance(self._out, TextIOWrapper):
            # JSON is UTF-8 everywhere; people are shown as much as their terminal can show.
            self._out.reconfigure(encoding="utf-8" if is_json else None, errors="backslashreplace")
        self.is_live = self._out.isatty() and not is_json and os.environ.get("TERM") != "dumb"
        """Whether somebody watches, so that what was printed can be painted over."""
        self._has_colour = self.is_live and not os.environ.get("NO_COLOR")

    def answer(self, document: Any, *lines: str) -> None:
        """One answer: `document` as JSON if that was asked for, else `lines` for people."""
        if self.is_json:
            self.say(msgspec.json.encode(document).decode())
        else:
            self.say(*lines)

    def say(self, *lines: str) -> None:
        for line in lines:
            print(line, file=self._out)  # what it is for
        self._out.flush()

    def remark(self, *lines: str) -> None:
        for line in lines:
            print(f"octostore: {line}", file=sys.stderr, flush=True)  # noqa: T201

    def table(self, header: Sequence[str], rows: Sequence[Row]) -> list[str]:
        """Lines; on a terminal none is longer than it is wide."""
        head, *body = as_table(header, rows, self._size.columns or None)
        return [self.style(head, "bold"), *body]

    def style(self, text: str, *names: str) -> str:
        if not self._has_colour or not text:
            return text
        return f"\x1b[{';'.join(_STYLES[name] for name in names)}m{text}\x1b[0m"

    def repaint(self, lines: Sequence[str]) -> None:
        """In the place of all that is on the screen, which does not scroll."""
        room = self._size.lines - 1
        if 0 < room < len(lines):
            lines = [*lines[: room - 1], self.style(f"… and {len(lines) - room + 1} lines more", "dim")]
        self._out.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._out.flush()

    def end_with_reader(self) -> None:
        """For a command that only looks, and goes on: it ends as soon as nobody reads any more, as in `… | grep -m1`.

        It would notice when it next writes, and that may never be.
        """
        Thread(target=_end_with_reader, args=(self._out.fileno(),), daemon=True).start()

    @property
    def _size(self) -> os.terminal_size:
        """Of the terminal; zeros where there is none, or one that does not know."""
        return os.get_terminal_size(self._out.fileno()) if self.is_live else os.terminal_size((0, 0))


def _end_with_reader(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # that the other end is closed is told in any case
    poll.poll()
    os._exit(BROKEN_PIPE)
