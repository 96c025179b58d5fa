"""Reach an event loop from any thread."""

import asyncio
from collections.abc import Callable
from contextlib import suppress


def is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    return asyncio._get_running_loop() is loop  # noqa: SLF001  # the public function raises if no loop runs


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    """Call it in the loop's thread, soon. Nobody is waiting any more if the loop is closed."""
    if is_running_here(loop):
        loop.call_soon(function)  # waking a loop that is running would take two system calls
    else:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(function)


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
        if is_running_here(self._loop):
            self.event.set()
        else:
            call_in_loop(self._loop, self.event.set)
        if self._then is not None:
            self._then()
