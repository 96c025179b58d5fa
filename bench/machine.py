"""The machine the numbers come from, and the command that repeats them."""

import os
import platform
import sys
import tempfile
from pathlib import Path

import apsw


def facts() -> str:
    command = " ".join([".venv/bin/python", "bench/run.py", *sys.argv[1:]])
    folder = Path(tempfile.gettempdir()).resolve()
    cores = f"{len(os.sched_getaffinity(0))} cores ({platform.machine()}), load {os.getloadavg()[0]:.1f}"
    sqlite = f"SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})"
    place = f"{folder} on {_filesystem(folder)}"
    versions = f"{cores}, Python {platform.python_version()}, {sqlite}, {place}"
    return f"OctoStore benchmark. To repeat: {command}\n{versions}"


def _filesystem(folder: Path) -> str:
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "an unknown filesystem"
    lines = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
    holding = [(len(place), kind) for _, place, kind, *_ in lines if folder.is_relative_to(place)]
    return max(holding)[1]
