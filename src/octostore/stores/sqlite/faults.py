"""SQLite's errors in our words: which file, what happened, what to do."""

import apsw

from octostore.core.errors import Unreachable

_FAULTS: tuple[tuple[type[apsw.Error], str, str], ...] = (
    (apsw.BusyError, "busy", "another process has been writing to it for too long; try again, or find that process"),
    (apsw.LockedError, "busy", "it is locked; try again"),
    (apsw.ProtocolError, "busy", "others were opening it at the same time; try again"),
    (apsw.FullError, "disk_full", "the disk is full; nothing was changed. Free some space and try again"),
    (apsw.ReadOnlyError, "read_only", "it cannot be written to; check the permissions of the file and its folder"),
    (apsw.NotADBError, "not_a_database", "it is not a SQLite database; check the path. The file was not changed"),
    (
        apsw.CorruptError,
        "corrupt",
        "it is damaged; restore a backup, or salvage the data with the sqlite3 tool's .recover",
    ),
    (apsw.CantOpenError, "io", "it cannot be opened; check that the folder exists and that you may write there"),
    (apsw.IOError, "io", "reading or writing it failed; check the disk"),
)


def _is_full_beside(error: apsw.Error) -> bool:
    """A full disk also prevents the shared index (-shm) from growing, which SQLite reports as an I/O error."""
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE


class FaultsOf:
    """Turns SQLite faults in a block into `Unreachable`. Its other errors are our bugs, and pass through."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Nothing to set up."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, apsw.Error):
            for kind, reason, advice in _FAULTS:
                if isinstance(error, kind) or (kind is apsw.FullError and _is_full_beside(error)):
                    message = f"the store at {self._path} cannot be used: {advice} ({error})"
                    raise Unreachable(message, reason=reason) from error
        elif isinstance(error, OSError):
            reason = "read_only" if isinstance(error, PermissionError) else "io"
            advice = "check that its folder exists and that you may write there"
            raise Unreachable(
                f"the store at {self._path} cannot be opened: {advice} ({error.strerror or error})", reason=reason
            ) from error
