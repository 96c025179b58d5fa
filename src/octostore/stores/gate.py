"""A gate that many go through at once, and that can be shut while nobody is inside."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._condition:
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()

    def shut(self) -> None:
        """Wait until nobody is inside; whoever comes then waits for `open`."""
        self._condition.acquire()
        self._condition.wait_for(lambda: self._inside == 0)

    def open(self) -> None:
        self._condition.release()
