"""Raise the scheduling priority of a process that must act in time, as far as the system allows."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

LOWEST_NICE = -20


class Priority:
    """The priority of this process; its children have to `restore` theirs."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def raise_own(self) -> None:
        """Ahead of all ordinary processes, or as far ahead as allowed."""
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        for wanted in range(LOWEST_NICE, nice):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, wanted)
                self._undo.append(partial(os.setpriority, os.PRIO_PROCESS, 0, nice))
                break
        with suppress(OSError, AttributeError):  # not every system has real-time scheduling
            before = os.sched_getscheduler(0), os.sched_getparam(0)
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
            self._undo.append(partial(os.sched_setscheduler, 0, *before))

    def restore(self) -> None:
        for undo in reversed(self._undo):
            undo()
