"""Signals as something to wait for, together with everything else."""

import os
import signal
from collections.abc import Iterable
from types import FrameType
from typing import Self


class SignalPipe:
    """While the block runs, `numbers` are written down here instead of being acted upon. For the main thread."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._numbers = list(numbers)
        self._before: dict[signal.Signals, object] = {}
        self._out, self._in = os.pipe()
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
        return [number for number in came if number in self._numbers]

    def __enter__(self) -> Self:
        signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _nothing) for number in self._numbers}
        return self

    def __exit__(self, *_raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(-1)
        os.close(self._in)
        os.close(self._out)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Python's own handler writes the number down; without any, the signal would act."""
