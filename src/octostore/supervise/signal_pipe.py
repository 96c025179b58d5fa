"""Turn signals into bytes on a pipe, so that `select` can wait for them together with everything else."""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from types import FrameType
from typing import Any, Self, TypeVar

from octostore.client.daemon_thread import run_in_daemon_thread
from octostore.stores.clock import boottime

TICK_SECONDS = 1.0
"""The longest single wait: timers stop while the machine sleeps, but leases keep running."""
T = TypeVar("T")


class SignalPipe:
    """While the block runs, `numbers` are queued here instead of taking effect. Main thread only.

    An exception raised by a signal handler can get lost, for example in C code that calls `__hash__`. So long calls run
    in another thread, and the main thread waits for them and for signals at once.
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

    def read(self) -> list[int]:
        """The signals that arrived since the last call."""
        try:
            numbers = os.read(self._out, 1_024)
        except BlockingIOError:
            return []
        return [number for number in numbers if number in self._before]

    def add(self, number: signal.Signals) -> None:
        self._before[number] = signal.signal(number, _ignore)

    def run_in_thread(self, call: Callable[[], T]) -> "Future[T]":
        """Run `call` in a daemon thread, which signals do not interrupt and process exit does not wait for."""
        future = run_in_daemon_thread(call, "octostore-call")
        future.add_done_callback(self.wake)
        return future

    def wait(self, future: "Future[Any]", on_signal: Callable[[int], None], seconds: float = float("inf")) -> bool:
        """Whether `future` completes within `seconds`. `on_signal` handles signals that arrive first, and may raise."""
        until = boottime() + seconds
        while not future.done() and (left := until - boottime()) > 0:
            select.select([self], [], [], min(left, TICK_SECONDS))
            for number in self.read():
                on_signal(number)
        return future.done()

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

    def wake(self, _future: object = None) -> None:
        """End a wait, from any thread."""
        with self._closing, suppress(BlockingIOError):
            if self._in >= 0:
                os.write(self._in, b"\0")


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Python writes the number to the wakeup descriptor; without a handler, the default action would apply."""
