"""All processes below one, however they are related."""

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from functools import cache


def descendants(root: int, *, without: Container[int] = ()) -> list[int]:
    """Nearest first, but for the families of `without`.

    Found by their parents, which no process can choose: groups and sessions it can leave.
    """
    children_of = _children_of if _has_lists() else _looking_at_all()
    found: list[int] = []
    level = [root]
    while level:
        level = [child for parent in level for child in children_of(parent) if child not in without]
        found += level
    return found


def signal_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_below(root: int) -> None:
    """Once; what is being forked in this moment is found the next time."""
    signal_all(descendants(root), signal.SIGKILL)


def end_orphans(guardians: Container[int]) -> None:
    """All processes below us that have no guardian. Nothing of them is left afterwards."""
    while orphans := descendants(os.getpid(), without=guardians):
        signal_all(orphans, signal.SIGKILL)
        for pid in orphans:
            with suppress(ChildProcessError):  # not ours yet; it will be when its parent is gone
                os.waitpid(pid, 0)


@cache
def _has_lists() -> bool:
    """Whether the system keeps lists of children: to look at all processes of a busy machine takes too long."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110


def _children_of(pid: int) -> list[int]:
    """Those of all its threads. One that ends meanwhile may hide another, which is found the next time."""
    children: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # somebody waits
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                children += map(int, file.read().split())
    return children


def _looking_at_all() -> Callable[[int], Sequence[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    with suppress(FileNotFoundError):
        for entry in os.listdir("/proc"):  # noqa: PTH208  # hundreds of them, while somebody waits
            if entry.isdecimal():
                with suppress(OSError):
                    children[_parent_of(entry)].append(int(entry))
    return lambda pid: children.get(pid, ())


def _parent_of(pid: str) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        # The name of the program stands in parentheses and may contain anything, also parentheses.
        return int(file.read().rpartition(b")")[2].split()[1])
