"""Commands that are ended in the middle, and leave nothing behind."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128
"""As shells count the exit codes of what a signal has ended."""


@contextmanager
def tidied_up() -> Iterator[None]:
    """Signals end the block as Ctrl-C does, by an exception: whoever has begun something in it can undo that."""
    before = {sign: signal.signal(sign, _leave) for sign in ENDING if signal.getsignal(sign) != signal.SIG_IGN}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def _leave(sign: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(SIGNALLED + sign)
