"""An asyncio event that other threads can set."""

import asyncio
from collections.abc import Callable
from contextlib import suppress


class LoopFlag:
    """`set()` works from any thread; `event` is for tasks of the loop that created this; `then` is called last."""

    def __init__(self, then: Callable[[], None] | None = None) -> None:
        self.event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._then = then
        self._is_set = False

    def is_set(self) -> bool:
        """True at once, even before the loop has been woken."""
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        # Waking a loop that is running takes two system calls. (The public function raises if no loop runs.)
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001
            self.event.set()
        else:
            # The loop may be closed at any time; nobody is waiting then.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.event.set)
        if self._then is not None:
            self._then()
