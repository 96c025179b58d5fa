"""Print results to stdout, as text or as JSON, and messages to stderr."""

import os
import re
import select
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from threading import Thread
from typing import Any, TextIO

import msgspec

from octostore.cli.exit_codes import BROKEN_PIPE
from octostore.cli.table import Row, as_table
from octostore.core.visible import visible, visible_json

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_SEQUENCES = {chr(0xD800 + address): f"\x1b[{code}m" for address, code in enumerate(["0", *_STYLES.values()])}
"""Placeholders for styles, and what is printed for them. They are lone high surrogates, which never occur in text that
was read or received: Python decodes invalid bytes, for example in arguments, to low ones."""
_PLAIN, *_MARKS = _SEQUENCES
_MARK_OF = dict(zip(_STYLES, _MARKS, strict=True))
_ANY_MARK = re.compile(f"([{''.join(_SEQUENCES)}])")


class OutputFailed(OSError):
    """Standard output cannot be written."""


class Console:
    def __init__(self, *, is_json: bool, out: TextIO | None = None) -> None:
        self.is_json = is_json
        self._out = sys.stdout if out is None else out
        if isinstance(self._out, TextIOWrapper):
            # JSON is always UTF-8; text uses the terminal's encoding.
            self._out.reconfigure(encoding="utf-8" if is_json else None, errors="backslashreplace")
        self.is_live = self._out.isatty() and not is_json and os.environ.get("TERM") != "dumb"
        """Whether this is a terminal, where printed lines can be overwritten."""
        self._has_colour = self.is_live and not os.environ.get("NO_COLOR")

    def print_result(self, document: Any, *lines: str) -> None:
        """Print `document` with --json, else `lines`."""
        if self.is_json:
            self.print_lines(visible_json(msgspec.json.encode(document).decode()))
        else:
            self.print_lines(*lines)

    def print_lines(self, *lines: str) -> None:
        """Print each on one line, with control characters escaped: other people wrote much of it."""
        self._write("".join(f"{_render(line)}\n" for line in lines))

    def print_message(self, *lines: str) -> None:
        print_stderr(*(f"octostore: {line}" for line in lines))

    def table(self, header: Sequence[str], rows: Sequence[Row]) -> list[str]:
        """Lines that fit the width of the terminal."""
        head, *body = as_table(header, rows, self._size.columns or None)
        return [self.style(head, "bold"), *body]

    def style(self, text: str, *names: str) -> str:
        if not self._has_colour or not text:
            return text
        return f"{''.join(_MARK_OF[name] for name in names)}{text}{_PLAIN}"

    def repaint(self, lines: Sequence[str]) -> None:
        """Replace the whole screen, without scrolling."""
        room = self._size.lines - 1
        if 0 < room < len(lines):
            lines = [*lines[: room - 1], self.style(f"… and {len(lines) - room + 1} more lines", "dim")]
        self._paint("\x1b[H", lines, "\x1b[J")

    def paint_over(self, painted: int, lines: Sequence[str]) -> None:
        """Replace the last `painted` lines."""
        self._paint(f"\x1b[{painted}A" if painted else "", lines)

    def clear(self) -> None:
        self._paint("\x1b[2J", [])

    def end_with_reader(self) -> None:
        """Exit as soon as the reader of a pipe is gone, as in `… --follow | grep -m1`.

        Otherwise the command would notice at its next write, which may never happen.
        """
        Thread(target=_end_with_reader, args=(self._out.fileno(),), daemon=True).start()

    def _paint(self, before: str, lines: Sequence[str], behind: str = "") -> None:
        self._write(before + "".join(f"{_render(line)}\x1b[K\n" for line in lines) + behind)

    def _write(self, text: str) -> None:
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputFailed(error.errno, error.strerror) from error

    @property
    def _size(self) -> os.terminal_size:
        """The terminal's size; zeros if unknown."""
        return os.get_terminal_size(self._out.fileno()) if self.is_live else os.terminal_size((0, 0))


def print_stderr(*lines: str) -> None:
    """What cannot be written is lost; the command goes on, and its exit code stays true."""
    try:
        sys.stderr.write("".join(f"{_render(line)}\n" for line in lines))
        sys.stderr.flush()
    except BrokenPipeError:
        raise
    except OSError:
        pass  # a full disk, for example


def _render(line: str) -> str:
    return "".join(_SEQUENCES.get(part) or visible(part) for part in _ANY_MARK.split(line))


def _end_with_reader(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)  # hangups are always reported
    poll.poll()
    os._exit(BROKEN_PIPE)
