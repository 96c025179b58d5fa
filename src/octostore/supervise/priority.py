"""Getting one's turn before others, for who has to act in time. What the system does not allow is left as it is."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

NICEST = -20


class Priority:
    """Raised for this process alone: what it starts has to `restore`."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def raise_ours(self) -> None:
        """Before all ordinary processes; else as far before them as allowed."""
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        for wished in range(NICEST, nice):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, wished)
                self._undo.append(partial(os.setpriority, os.PRIO_PROCESS, 0, nice))
                break
        with suppress(OSError, AttributeError):  # not every system has this
            before = os.sched_getscheduler(0), os.sched_getparam(0)
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
            self._undo.append(partial(os.sched_setscheduler, 0, *before))

    def restore(self) -> None:
        for undo in reversed(self._undo):
            undo()
