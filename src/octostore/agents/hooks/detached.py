"""Work a client must not wait for: done by a process that outlives the hook, for at most half a minute."""

import os
import signal
from collections.abc import Callable

LIMIT_SECONDS = 30
_FIRST_OTHER_DESCRIPTOR = 3


def in_a_detached_child(act: Callable[[], object]) -> None:
    """Call it while there is no other thread. What `act` raises is lost with the child."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            _let_go()
            signal.alarm(LIMIT_SECONDS)
            act()
    finally:
        os._exit(os.EX_OK)


def _let_go() -> None:
    """A client waits until nobody has its pipes open."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(_FIRST_OTHER_DESCRIPTOR):
        os.dup2(nothing, stream)
    os.closerange(_FIRST_OTHER_DESCRIPTOR, os.sysconf("SC_OPEN_MAX"))
