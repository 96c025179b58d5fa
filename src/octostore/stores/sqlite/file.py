"""A store is a file, not a path: check whether it exists, and whether it is still the one we opened."""

import os
import stat

from octostore.core.errors import Unreachable
from octostore.stores.permissions import check_file

BESIDE = ("-wal", "-shm", "-journal")
"""The files SQLite keeps next to a database."""


def check_permissions(path: str) -> None:
    """Anyone who can write to a database, or to the files next to it, can change its contents."""
    check_file(path, *BESIDE)


def is_there(path: str) -> bool:
    """An empty file is not a store yet; one may be created in it."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(status.st_mode):  # its size depends on the file system, and may be that of an empty file
        example = os.path.join(path, "octostore.db")
        raise Unreachable(f"{path} is a folder; name a file in it, like {example}", reason="not_a_database")
    return status.st_size > 0


def has_wal(path: str) -> bool:
    return is_there(f"{os.path.realpath(path)}-wal")


def is_cut_off(path: str) -> bool:
    """Whether its header counts more pages than it has. Only for damaged files: this drops all locks on it."""
    with open(path, "rb") as file:
        header = file.read(100)
    return int.from_bytes(header[16:18]) * int.from_bytes(header[28:32]) > os.path.getsize(path)


def check_room(path: str) -> None:
    """Check that a store can be created at `path`."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(folder) and not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} cannot be written to")  # SQLite would only say that it cannot open the file
    os.stat(folder)
    if has_wal(path):
        raise moved(path, "its write-ahead log (-wal) is still here, but the database was moved or deleted without it")


class OpenedFile:
    """The file that was at `path` when it was opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = self._found()

    @property
    def is_in_place(self) -> bool:
        return self._found() == self._identity

    def check(self) -> None:
        """Never reply from a file that nobody else can find any more."""
        if not self.is_in_place:
            raise Unreachable(
                f"the store at {self._path} cannot be used: it was moved, replaced or deleted while this process had "
                "it open. Move the database and its -wal back in place; if you put a copy there instead, or restore a "
                "backup (`octostore restore`), restart this process",
                reason="moved",
            )

    def _found(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_dev, status.st_ino


def moved(path: str, what: str) -> Unreachable:
    return Unreachable(
        f"the store at {path} cannot be used: {what}. Put the database and its -wal back in place, or restore a backup "
        "(`octostore restore`)",
        reason="moved",
    )
