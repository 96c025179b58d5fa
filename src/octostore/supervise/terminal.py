"""The controlling terminal. The command has its own process group, so we have to hand the terminal to it."""

import os
import signal
from contextlib import suppress


def open_terminal() -> int | None:
    """Open our session's terminal; None if it has none."""
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


class Terminal:
    def __init__(self) -> None:
        self._fd = open_terminal()
        # A background process that changes the foreground group gets SIGTTOU, and we are one when we take it back.
        if self._fd is not None:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    @property
    def is_ours(self) -> bool:
        return self._foreground() == os.getpgrp()

    @property
    def is_exclusively_ours(self) -> bool:
        """Whether we run outside a pipeline, whose other members would also need the terminal."""
        return self.is_ours and os.isatty(0) and os.isatty(1)

    def give_to(self, group: int) -> None:
        self._set(group)

    def reclaim_from(self, group: int) -> None:
        if self._foreground() == group:
            self._set(os.getpgrp())

    def _foreground(self) -> int | None:
        if self._fd is None:
            return None
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:
            return None  # the terminal hung up

    def _set(self, group: int) -> None:
        if self._fd is not None:
            with suppress(OSError):
                os.tcsetpgrp(self._fd, group)


def take_foreground() -> None:
    """Make the calling process's group the terminal's foreground group. Call it in the child, before exec."""
    fd = open_terminal()
    if fd is not None:
        with suppress(OSError):
            os.tcsetpgrp(fd, os.getpgrp())
        os.close(fd)


def stop_own_group(number: int) -> None:
    """Stop our process group as `number` stopped the command: a shell waits until a whole pipeline has stopped.

    Returns when we are continued. After Ctrl-Z without a job-control shell, that is at once.
    """
    if number == signal.SIGTSTP:
        handler = signal.signal(number, signal.SIG_DFL)
        os.killpg(0, number)
        signal.signal(number, handler)
    else:
        os.killpg(0, signal.SIGSTOP)
