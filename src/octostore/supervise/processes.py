"""All processes below one, however they are related."""

import os
import signal
from collections import defaultdict
from collections.abc import Container, Iterable
from contextlib import suppress


def descendants(root: int, *, without: Container[int] = ()) -> list[int]:
    """Nearest first, but for the families of `without`.

    Found by their parents, which no process can choose: groups and sessions it can leave.
    """
    children = _children_by_parent()
    found: list[int] = []
    level = [root]
    while level:
        level = [child for parent in level for child in children.get(parent, ()) if child not in without]
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


def _children_by_parent() -> dict[int, list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    try:
        entries = os.listdir("/proc")  # noqa: PTH208  # hundreds of them, while somebody waits
    except FileNotFoundError:
        return children
    for entry in entries:
        if entry.isdecimal():
            with suppress(OSError):
                children[_parent_of(entry)].append(int(entry))
    return children


def _parent_of(pid: str) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        # The name of the program stands in parentheses and may contain anything, also parentheses.
        return int(file.read().rpartition(b")")[2].split()[1])
