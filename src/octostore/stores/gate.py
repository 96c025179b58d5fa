"""A gate that many go through at once, and that can be shut while nobody is inside."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._is_shutting = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._condition:
            self._condition.wait_for(lambda: not self._is_shutting)
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()

    def shut(self) -> None:
        """Wait until nobody is inside; whoever comes from now on waits for `open`."""
        self._condition.acquire()
        self._is_shutting = True
        self._condition.wait_for(lambda: self._inside == 0)

    def open(self) -> None:
        self._is_shutting = False
        self._condition.notify_all()
        self._condition.release()
