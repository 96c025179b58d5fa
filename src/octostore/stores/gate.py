"""A gate that many threads can pass at the same time, and that can be shut once it is empty."""

import threading


class Gate:
    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._is_shutting = False

    def __enter__(self) -> None:
        with self._condition:
            while self._is_shutting:
                self._condition.wait()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._inside -= 1
            if self._is_shutting:
                self._condition.notify_all()

    def shut(self) -> None:
        """Wait until nobody is inside; threads that arrive later wait for `open`."""
        self._condition.acquire()
        self._is_shutting = True
        self._condition.wait_for(lambda: self._inside == 0)

    def open(self) -> None:
        self._is_shutting = False
        self._condition.notify_all()
        self._condition.release()
