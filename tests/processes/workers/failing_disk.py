"""A disk that loses unsynced writes when the power fails: SQLite's own files, through the test's own file system."""

import os
import random
import signal
import threading
from pathlib import Path
from typing import NamedTuple

import apsw

SECTOR = 512


class Change(NamedTuple):
    """A write, or (without data) a truncation."""

    offset: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.offset :]
            return
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data


class Disk:
    """Counts its operations. At operation `fails_at` the power fails, and this process dies."""

    def __init__(self, fails_at: int, seed: int) -> None:
        self.fails_at = fails_at
        self.operations = 0
        self.safe: dict[Path, bytearray] = {}
        self.at_risk: dict[Path, list[Change]] = {}
        self._chance = random.Random(f"{seed} {fails_at}")
        self._keeps_some = seed > 0
        self._lock = threading.Lock()

    def opened(self, path: Path) -> None:
        if path not in self.safe:
            self.safe[path] = bytearray(path.read_bytes() if path.exists() else b"")
            self.at_risk[path] = []

    def changes(self, path: Path, change: Change) -> None:
        with self._lock:
            self._count()
            self.at_risk[path].append(change)

    def syncs(self, path: Path) -> None:
        with self._lock:
            self._count()
            for change in self.at_risk[path]:
                change.apply(self.safe[path])
            self.at_risk[path].clear()

    def deletes(self, path: Path) -> None:
        with self._lock:
            self._count()
            self.safe.pop(path, None)
            self.at_risk.pop(path, None)

    def _count(self) -> None:
        self.operations += 1
        if self.operations == self.fails_at:
            self._fail()

    def _fail(self) -> None:
        for path, content in self.safe.items():
            for change in self.at_risk[path] if self._keeps_some else []:
                self._maybe(change, content)
            path.write_bytes(content)
        os.kill(os.getpid(), signal.SIGKILL)

    def _maybe(self, change: Change, content: bytearray) -> None:
        """Disks write in any order, whole sectors at a time."""
        fate = self._chance.choice(["lost", "kept", "torn"])
        if fate == "torn" and change.data is not None:
            change = change._replace(data=change.data[: self._chance.randrange(0, len(change.data) + 1, SECTOR)])
        if fate != "lost":
            change.apply(content)


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        disk.opened(self._path)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # SQLite's name
        self._disk.changes(self._path, Change(offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.changes(self._path, Change(newsize, None))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._disk.syncs(self._path)


class FileSystem(apsw.VFS):
    """The file system that every connection of this process uses."""

    def __init__(self, disk: Disk) -> None:
        super().__init__("failing", "unix", makedefault=True)
        self._disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> File:  # noqa: N802
        return File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._disk.deletes(Path(filename))
        super().xDelete(filename, syncdir)
