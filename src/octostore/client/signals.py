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

_callbacks: list[Note] = []
"""Several where one thread runs several loops, as asyncio can; each is told."""
_replaced: dict[signal.Signals, Any] = {}
"""What was installed when the first of them came."""


@contextmanager
def catching_signals(note: Note) -> Iterator[None]:
    """While the block runs, `note` is called with those that come. It must not raise, nor wait for a lock.

    Not outside the main thread, which has no say in this, nor for a signal that the program looks after itself.
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
    """Python's own, or that of `asyncio.run`, which would cancel everything."""
    made_by = getattr(getattr(handler, "func", None), "__qualname__", None)
    return made_by == "Runner._on_sigint" or handler in (signal.SIG_DFL, signal.default_int_handler)


def exit_on(number: signal.Signals) -> NoReturn:
    """As the program would have without us, except that its blocks are left in order."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(SIGNALLED + number)
