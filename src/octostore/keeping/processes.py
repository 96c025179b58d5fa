"""Processes, distinguished from later ones with the same number."""

import os
import signal
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

_GONE = {"Z", "X"}
_STATE, _PARENT, _SESSION, _TERMINAL, _STARTED = 0, 1, 3, 4, 19
"""Positions in /proc/PID/stat, after the name."""


class Process(msgspec.Struct, frozen=True):
    """`name` is for people."""

    pid: int
    started: str = ""
    """Start time on the machine's own clock; empty if the system does not say."""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.name or 'process'} ({self.pid})"


class Seen(msgspec.Struct, frozen=True):
    """A process found while looking for one to watch."""

    process: Process
    parent: int
    command: list[str]
    leads_terminal: bool
    """Whether it leads a terminal's session; if so, it ends when the terminal is closed."""


def find(pid: int) -> Process | None:
    """The process with this number now."""
    if not _has_proc():
        return Process(pid) if _exists(pid) else None
    seen = look_at(pid)
    return None if seen is None else seen.process


def is_running(process: Process) -> bool:
    found = find(process.pid)
    return found is not None and found.started == process.started


def look_at(pid: int) -> Seen | None:
    """None if there is none, or only a zombie."""
    folder = Path("/proc", str(pid))
    try:
        stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        command = (folder / "cmdline").read_bytes()
    except OSError:
        return None
    # The name is in parentheses and may contain anything, including parentheses.
    before, _, behind = stat.rpartition(")")
    fields = behind.split()
    if fields[_STATE] in _GONE:
        return None
    return Seen(
        process=Process(pid, f"{fields[_STARTED]}@{_boot_id()}", before.partition("(")[2]),
        parent=int(fields[_PARENT]),
        command=[os.fsdecode(word) for word in command.rstrip(b"\0").split(b"\0")],
        leads_terminal=fields[_SESSION] == str(pid) and fields[_TERMINAL] != "0",
    )


def ancestors(pid: int) -> list[Seen]:
    """Nearest first, without `pid` itself and without the first process of the system."""
    found: list[Seen] = []
    seen = look_at(pid)
    while seen is not None and seen.parent > 1:
        seen = look_at(seen.parent)
        if seen is not None:
            found.append(seen)
    return found


def open_handle(process: Process) -> int | None:
    """A descriptor that becomes readable when it ends; None if unsupported, or if it has ended."""
    opener: Any = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        handle: int = opener(process.pid)
    except OSError:
        return None
    if is_running(process):  # only now is it certain whose handle this is
        return handle
    os.close(handle)
    return None


def wake(process: Process) -> None:
    """Send it TERM, if it is certainly still the same. If that is unknown, it must notice on its own."""
    if process.started and is_running(process):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGTERM)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@cache
def _has_proc() -> bool:
    return Path("/proc/self/stat").exists()


@cache
def _boot_id() -> str:
    """The boot that start times count from."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
