"""Find and kill all descendants of a process."""

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from functools import cache


def descendants(root: int, *, excluding: Container[int] = ()) -> list[int]:
    """All processes below `root`, nearest first, without those in `excluding` and their descendants.

    Found through their parents: a process can leave its group and session, but cannot choose its parent.
    """
    children_of = _list_children if _has_child_lists() else _scan_all_processes()
    found: list[int] = []
    level = [root]
    while level:
        level = [child for parent in level for child in children_of(parent) if child not in excluding]
        found += level
    return found


def signal_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_descendants(root: int) -> None:
    """One pass; repeat it for processes forked meanwhile."""
    signal_all(descendants(root), signal.SIGKILL)


def kill_orphans(guardians: Container[int]) -> None:
    """Kill every process below us that has no guardian, and wait for them all."""
    while orphans := descendants(os.getpid(), excluding=guardians):
        signal_all(orphans, signal.SIGKILL)
        for pid in orphans:
            with suppress(ChildProcessError):  # not our child until its parent is gone
                os.waitpid(pid, 0)


@cache
def _has_child_lists() -> bool:
    """Whether the kernel lists a process's children: scanning all processes of a busy machine takes too long."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110


def _list_children(pid: int) -> list[int]:
    """The children of all its threads. One that ends during the scan may hide another until the next pass."""
    children: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # pathlib is slower
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                children += map(int, file.read().split())
    return children


def _scan_all_processes() -> Callable[[int], Sequence[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    with suppress(FileNotFoundError):
        for entry in os.listdir("/proc"):  # noqa: PTH208  # hundreds of entries; pathlib is slower
            if entry.isdecimal():
                with suppress(OSError):
                    children[_parent_pid(entry)].append(int(entry))
    return lambda pid: children.get(pid, ())


def _parent_pid(pid: str) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        # The program's name is in parentheses and may itself contain parentheses.
        return int(file.read().rpartition(b")")[2].split()[1])
