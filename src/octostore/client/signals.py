"""TERM and INT while a worker runs in the main thread: the first drains it, and the second stops it."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

STOPPING = (signal.SIGTERM, signal.SIGINT)
SIGNALLED = 128
"""What shells add to a signal's number for the exit code of a process it killed."""


Note = Callable[[signal.Signals], object]

_callbacks: list[Note] = []
"""More than one if the main thread runs several work loops, as it can with asyncio. Each is called."""
_replaced: dict[signal.Signals, Any] = {}
"""The handlers that were installed before."""


@contextmanager
def catching_signals(note: Note) -> Iterator[None]:
    """Call `note` with each signal that arrives during the block. It must not raise or wait for a lock.

    Only in the main thread, and only for signals that the program does not handle itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _callbacks.append(note)
    try:
        for number in STOPPING if len(_callbacks) == 1 else ():
            if _is_default(handler := signal.getsignal(number)):
                _replaced[number] = handler
                signal.signal(number, _handle)
        yield
    finally:
        _callbacks.remove(note)
        while _replaced and not _callbacks:
            signal.signal(*_replaced.popitem())


def _handle(number: int, _frame: FrameType | None) -> None:
    for note in tuple(_callbacks):
        note(signal.Signals(number))


def _is_default(handler: Any) -> bool:
    """Whether it is Python's own, or that of `asyncio.run`, which would cancel everything."""
    made_by = getattr(getattr(handler, "func", None), "__qualname__", None)
    return made_by == "Runner._on_sigint" or handler in (signal.SIG_DFL, signal.default_int_handler)


def exit_on(number: signal.Signals) -> NoReturn:
    """End the program as the signal would have, but leave its blocks in order."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(SIGNALLED + number)
