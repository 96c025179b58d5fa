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


Note = Callable[[signal.Signals], object]

_noting: list[Note] = []
"""Several where one thread runs several loops, as asyncio can; each is told."""
_before: dict[signal.Signals, Any] = {}
"""What was installed when the first of them came."""


@contextmanager
def noting(note: Note) -> Iterator[None]:
    """While the block runs, `note` is called with those that come. It must not raise, nor wait for a lock.

    Not outside the main thread, which has no say in this, nor for a signal that the program looks after itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _noting.append(note)
    try:
        for number in STOPPING if len(_noting) == 1 else ():
            if _is_usual(handler := signal.getsignal(number)):
                _before[number] = handler
                signal.signal(number, _handle)
        yield
    finally:
        _noting.remove(note)
        while _before and not _noting:
            signal.signal(*_before.popitem())


def _handle(number: int, _frame: FrameType | None) -> None:
    for note in tuple(_noting):
        note(signal.Signals(number))


def _is_usual(handler: Any) -> bool:
    """Python's own, or that of `asyncio.run`, which would cancel everything."""
    made_by = getattr(getattr(handler, "func", None), "__qualname__", None)
    return made_by == "Runner._on_sigint" or handler in (signal.SIG_DFL, signal.default_int_handler)


def die_of(number: signal.Signals) -> NoReturn:
    """As the program would have without us, except that its blocks are left in order."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(SIGNALLED + number)
