"""What Linux does for those who start processes. Elsewhere these do nothing, and say so."""

import ctypes
import os
import signal
import sys

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> bool:
    """From now on, a descendant whose parent ends becomes our child, whatever it did to get away."""
    return _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Be killed when our parent ends. To be called by a new process; `parent` is who started it."""
    if _prctl(_SET_PDEATHSIG, signal.SIGKILL) and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)  # it had ended before


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    failed: int = ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    return not failed
