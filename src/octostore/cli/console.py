"""Where answers and remarks go: answers to stdout, for people or as JSON; remarks to stderr."""

import os
import re
import select
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from threading import Thread
from typing import Any, TextIO

import msgspec

from octostore.cli.exits import BROKEN_PIPE
from octostore.cli.table import Row, as_table
from octostore.core.visible import visible, visible_json

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_SEQUENCES = {chr(0xD800 + place): f"\x1b[{code}m" for place, code in enumerate(["0", *_STYLES.values()])}
"""What a style is until it is printed, and then: lone surrogates are in no text that was ever read or received."""
_PLAIN, *_MARKS = _SEQUENCES
_MARK_OF = dict(zip(_STYLES, _MARKS, strict=True))
_ANY_MARK = re.compile(f"([{''.join(_SEQUENCES)}])")


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
            self.say(visible_json(msgspec.json.encode(document).decode()))
        else:
            self.say(*lines)

    def say(self, *lines: str) -> None:
        """Each on one line, whatever is in it: much of it was written by others."""
        self._out.write("".join(f"{_drawn(line)}\n" for line in lines))
        self._out.flush()

    def remark(self, *lines: str) -> None:
        complain(*(f"octostore: {line}" for line in lines))

    def table(self, header: Sequence[str], rows: Sequence[Row]) -> list[str]:
        """Lines; on a terminal none is longer than it is wide."""
        head, *body = as_table(header, rows, self._size.columns or None)
        return [self.style(head, "bold"), *body]

    def style(self, text: str, *names: str) -> str:
        if not self._has_colour or not text:
            return text
        return f"{''.join(_MARK_OF[name] for name in names)}{text}{_PLAIN}"

    def repaint(self, lines: Sequence[str]) -> None:
        """In the place of all that is on the screen, which does not scroll."""
        room = self._size.lines - 1
        if 0 < room < len(lines):
            lines = [*lines[: room - 1], self.style(f"… and {len(lines) - room + 1} lines more", "dim")]
        self._paint("\x1b[H", lines, "\x1b[J")

    def paint_over(self, painted: int, lines: Sequence[str]) -> None:
        """In the place of the last lines that were `painted`."""
        self._paint(f"\x1b[{painted}A" if painted else "", lines)

    def clear(self) -> None:
        self._paint("\x1b[2J", [])

    def end_with_reader(self) -> None:
        """For a command that only looks, and goes on: it ends as soon as nobody reads any more, as in `… | grep -m1`.

        It would notice when it next writes, and that may never be.
        """
        Thread(target=_end_with_reader, args=(self._out.fileno(),), daemon=True).start()

    def _paint(self, before: str, lines: Sequence[str], behind: str = "") -> None:
        self._out.write(before + "".join(f"{_drawn(line)}\x1b[K\n" for line in lines) + behind)
        self._out.flush()

    @property
    def _size(self) -> os.terminal_size:
        """Of the terminal; zeros where there is none, or one that does not know."""
        return os.get_terminal_size(self._out.fileno()) if self.is_live else os.terminal_size((0, 0))


def complain(*lines: str) -> None:
    """To stderr."""
    sys.stderr.write("".join(f"{_drawn(line)}\n" for line in lines))
    sys.stderr.flush()


def _drawn(line: str) -> str:
    return "".join(_SEQUENCES.get(part) or visible(part) for part in _ANY_MARK.split(line))


def _end_with_reader(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # that the other end is closed is told in any case
    poll.poll()
    os._exit(BROKEN_PIPE)
