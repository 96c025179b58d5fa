"""TERM and INT while a worker runs in the main thread: the first drains it, and the second stops it."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

STOPPING = (signal.SIGTERM, signal.SIGINT)
SIGNALLED = 128
"""What shells add to the number of a signal to tell who died of one."""


@contextmanager
def noting(note: Callable[[signal.Signals], object]) -> Iterator[None]:
    """While the block runs, `note` is called with those that come. It must not raise, nor wait for a lock.

    Not outside the main thread, which has no say in this, nor for a signal that the program looks after itself.
    """
    before: dict[signal.Signals, Any] = {}

    def handle(number: int, _frame: FrameType | None) -> None:
        note(signal.Signals(number))

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in STOPPING if _is_usual(signal.getsignal(number))}
    try:
        for number in before:
            signal.signal(number, handle)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_usual(handler: Any) -> bool:
    """Python's own, or that of `asyncio.run`, which would cancel everything."""
    made_by = getattr(getattr(handler, "func", None), "__qualname__", None)
    return made_by == "Runner._on_sigint" or handler in (signal.SIG_DFL, signal.default_int_handler)


def die_of(number: signal.Signals) -> NoReturn:
    """As the program would have without us, except that its blocks are left in order."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(SIGNALLED + number)
