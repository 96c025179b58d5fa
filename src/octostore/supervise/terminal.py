"""The terminal that we were started on. A command in a process group of its own must be given it."""

import os
import signal
from contextlib import suppress


def open_terminal() -> int | None:
    """The terminal of our session, if it has one."""
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


class Terminal:
    def __init__(self) -> None:
        self._fd = open_terminal()
        # Only those in its foreground may give a terminal away; when taking it back we are not.
        if self._fd is not None:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    @property
    def is_ours(self) -> bool:
        return self._foreground() == os.getpgrp()

    @property
    def is_only_ours(self) -> bool:
        """Whether we are no part of a pipeline, whose other members need the terminal as much."""
        return self.is_ours and os.isatty(0) and os.isatty(1)

    def give_to(self, group: int) -> None:
        self._set(group)

    def take_back_from(self, group: int) -> None:
        if self._foreground() == group:
            self._set(os.getpgrp())

    def _foreground(self) -> int | None:
        if self._fd is None:
            return None
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:
            return None  # it was hung up

    def _set(self, group: int) -> None:
        if self._fd is not None:
            with suppress(OSError):
                os.tcsetpgrp(self._fd, group)


def take_foreground() -> None:
    """For a new process, before it becomes the command: its group is the one that the terminal belongs to."""
    fd = open_terminal()
    if fd is not None:
        with suppress(OSError):
            os.tcsetpgrp(fd, os.getpgrp())
        os.close(fd)


def stop_our_group(number: int) -> None:
    """As `number` has stopped the command: a shell waits until all of a pipeline, or of a script, has stopped.

    Returns when we go on; after Ctrl-Z that is at once where there is no shell that could tell us to.
    """
    if number == signal.SIGTSTP:
        ours = signal.signal(number, signal.SIG_DFL)
        os.killpg(0, number)
        signal.signal(number, ours)
    else:
        os.killpg(0, signal.SIGSTOP)
