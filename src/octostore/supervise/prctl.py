"""Linux process controls. On other systems they do nothing and return False."""

import ctypes
import os
import signal
import sys

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent ends, even if it daemonized."""
    return _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Be killed when our parent ends. Call it in a new process; `parent` is the process that started it."""
    if _prctl(_SET_PDEATHSIG, signal.SIGKILL) and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)  # the parent has already ended


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    failed: int = ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    return not failed
