"""Exit on TERM and HUP through an exception, so that an interrupted command can clean up."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from octostore.client.signals import SIGNALLED

TERMINATING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def exiting_on_signals() -> Iterator[None]:
    """Make these signals raise `SystemExit`, as Ctrl-C raises `KeyboardInterrupt`. Ignored ones stay ignored."""
    numbers = [number for number in TERMINATING_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, _exit) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(SIGNALLED + number)
