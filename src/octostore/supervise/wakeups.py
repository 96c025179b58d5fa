"""Signals as something to wait for, together with everything else."""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from types import FrameType
from typing import Any, Self, TypeVar

from octostore.client.apart import apart
from octostore.stores.clock import boottime

TICK_SECONDS = 1.0
"""How long to wait at a time at most: timers stand still while the machine sleeps, and leases do not."""
T = TypeVar("T")


class SignalPipe:
    """While the block runs, `numbers` are written down here instead of being acted upon. For the main thread.

    A handler that raises would be lost in some of what the thread may be doing, such as C code that asks Python for a
    hash. So what takes long is done apart, and waited for together with signals.
    """

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._numbers = list(numbers)
        self._before: dict[signal.Signals, Any] = {}
        self._out, self._in = os.pipe()
        self._closing = threading.Lock()
        for end in (self._out, self._in):
            os.set_blocking(end, False)

    def fileno(self) -> int:
        return self._out

    def taken(self) -> list[int]:
        """The signals that have come since it was asked last."""
        try:
            came = os.read(self._out, 1_024)
        except BlockingIOError:
            return []
        return [number for number in came if number in self._before]

    def add(self, number: signal.Signals) -> None:
        self._before[number] = signal.signal(number, _nothing)

    def apart(self, act: Callable[[], T]) -> "Future[T]":
        """What `act` gives or raises, in a thread that goes on whatever comes, and that nobody has to wait for."""
        answer = apart(act, "octostore-apart")
        answer.add_done_callback(self.wake)
        return answer

    def wait(self, answer: "Future[Any]", take: Callable[[int], None], seconds: float = float("inf")) -> bool:
        """Whether it came within `seconds`. `take` is given the signals that come before, and may raise."""
        until = boottime() + seconds
        while not answer.done() and (left := until - boottime()) > 0:
            select.select([self], [], [], min(left, TICK_SECONDS))
            for number in self.taken():
                take(number)
        return answer.done()

    def __enter__(self) -> Self:
        signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)
        for number in self._numbers:
            self.add(number)
        return self

    def __exit__(self, *_raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        with self._closing:
            os.close(self._in)
            self._in = -1
        os.close(self._out)

    def wake(self, _answer: object = None) -> None:
        """End a wait for it, from any thread."""
        with self._closing, suppress(BlockingIOError):
            if self._in >= 0:
                os.write(self._in, b"\0")


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Python's own handler writes the number down; without any, the signal would act."""
