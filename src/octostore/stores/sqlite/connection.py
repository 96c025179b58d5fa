"""Opening the file: durable, shared, and of a version we know."""

import os
import stat
import time
from contextlib import suppress

import apsw

from octostore.core.errors import Unreachable
from octostore.stores.identity import no_store
from octostore.stores.sqlite.file import has_wal, is_cut_off, is_there, moved

APPLICATION_ID = 0x4F637453  # "OctS": tells our files from other SQLite databases
HEADER_BYTES = 100
STATEMENTS_KEPT = 512
"""apsw's most. Each run of a statement takes the place of the one that was run this many runs ago, so that what a batch
runs row by row must not be more, or every statement is compiled anew for every batch.
"""
MIGRATIONS = os.path.join(os.path.dirname(__file__), "migrations")
PAGES_PER_CHECKPOINT = 4_000
"""How many pages (of 4 KiB) the write-ahead log may have before they are copied into the database: four times SQLite's
usual. Most of them are the same few pages over and over, of which only the last state is copied.
"""
BUSY_TIMEOUT_MS = 10_000
"""How long to wait for other processes' transactions, each of which takes milliseconds, before giving up."""


def connect(path: str | os.PathLike[str], *, create: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(os.fspath(path), flags=flags, statementcachesize=STATEMENTS_KEPT)
    set_patience(connection, BUSY_TIMEOUT_MS)
    # Plans that do not depend on values: otherwise SQLite compiles a statement with `LIMIT ?` anew each time it is run,
    # which takes ten times as long as running it.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # FULL: every commit is on the disk before it is answered.
    connection.pragma("synchronous", "FULL")
    connection.wal_autocheckpoint(PAGES_PER_CHECKPOINT)
    # The last one to close a database copies its -wal and deletes it, unless told otherwise. Whoever may do so says it.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return connection


def set_patience(connection: apsw.Connection, milliseconds: int) -> None:
    """How long it waits for others."""
    connection.set_busy_timeout(milliseconds)
    # Waiting for the write lock looks every millisecond then, where the busy handler's steps grow to 100 ms and let
    # one process starve while others take turns.
    connection.setlk_timeout(milliseconds, 0)


def make(path: str) -> None:
    """A new store, unless somebody else makes it first."""
    is_new = not is_there(path)
    # Lease ids are secrets, so nobody else may read the file, from its first moment on. SQLite gives its -wal and -shm
    # the same mode. It is not opened for that: closing it would drop the locks that other threads have on it by then.
    with suppress(FileExistsError, PermissionError):  # outside of Linux, only root may do so
        os.mknod(os.path.realpath(path), stat.S_IFREG | 0o600)
    connection = connect(path, create=True)
    try:
        if is_new:
            os.chmod(path, 0o600)
        # All tables come to be in the database itself, and at once: without its -wal it is never taken for a new one.
        migrate(connection, path)
        _switch_to_wal(connection)
    finally:
        connection.close()  # without copying a -wal: it is of somebody who was faster, and may still be marked as open


def prepare(path: str) -> apsw.Connection:
    """A connection to a store, of which is certain that it is one, whole and up to date."""
    try:
        return _prepare(path)
    except apsw.CorruptError:
        if is_cut_off(path):
            raise moved(path, "it is shorter than it says: cut off, or without its write-ahead log (-wal)") from None
        raise


def _prepare(path: str) -> apsw.Connection:
    if os.path.getsize(path) < HEADER_BYTES:
        # SQLite takes a file of a few bytes for an empty database, and would write over them.
        raise _not_a_store(path, "it is too short to be an SQLite database")
    had_wal = has_wal(path)
    connection = connect(path)
    try:
        _update(connection, path)
        check_whole(connection, path, had_wal=had_wal)
    except BaseException:
        # Whatever there is in a -wal stays there until somebody who has written closes the database.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, had_wal)
        connection.close()
        raise
    return connection


def _update(connection: apsw.Connection, path: str) -> None:
    version = version_of(connection, path)
    if version == 0 and os.path.getsize(path) == 0:
        raise no_store(path)  # whoever made it was killed half-way, and it was undone just now
    if version == 0:
        raise _not_a_store(path, "it is an SQLite database, but an empty one")
    _switch_to_wal(connection)
    if version < len(_scripts()):
        migrate(connection, path)


def is_current(connection: apsw.Connection) -> bool:
    return bool(connection.pragma("user_version") == len(_scripts()))


def check_whole(connection: apsw.Connection, path: str, *, had_wal: bool) -> None:
    is_open = connection.execute("SELECT is_open FROM counters").get
    # Somebody may have opened it just now, and has a -wal by now.
    if is_open and not had_wal and not has_wal(path):
        raise moved(path, "its write-ahead log (-wal) is missing, and with it what was written last")


def migrations() -> list[str]:
    """The scripts that lead from an empty file to the current schema; the version of a file is how many it has had."""
    scripts = []
    for name in _scripts():
        with open(os.path.join(MIGRATIONS, name), encoding="utf-8") as file:
            scripts.append(file.read())
    return scripts


def _scripts() -> list[str]:
    return sorted(name for name in os.listdir(MIGRATIONS) if name.endswith(".sql"))


def _not_a_store(path: str, why: str) -> Unreachable:
    return Unreachable(
        f"{path} is not an OctoStore store: {why}; check the path. It was not changed", reason="not_a_database"
    )


def version_of(connection: apsw.Connection, path: str) -> int:
    """How far its schema is; 0 where it is empty. Before anything is written: it must be ours, and no newer than we."""
    # In this order: another process may be making the file at this moment, its tables and its mark in one step.
    is_empty = not connection.execute("SELECT count(*) FROM sqlite_schema").get
    if not is_empty and connection.pragma("application_id") != APPLICATION_ID:
        raise _not_a_store(path, "it is an SQLite database, but not OctoStore's")
    version, known = int(connection.pragma("user_version")), len(_scripts())
    if version > known:
        raise Unreachable(
            f"{path} has schema version {version}, but this OctoStore knows only {known}; upgrade OctoStore. "
            "The file was not changed",
            reason="newer_schema",
        )
    return version


def _switch_to_wal(connection: apsw.Connection) -> None:
    """Once in the life of a file. SQLite does not wait for others here, so we do."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1_000
    while connection.pragma("journal_mode") != "wal":
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def migrate(connection: apsw.Connection, path: str) -> None:
    scripts = migrations()
    # Whoever comes first has the lock and does it; the others find it done.
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in scripts[version_of(connection, path) :]:
            connection.execute(script)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", len(scripts))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # where the disk was full, SQLite has rolled back by itself
            connection.execute("ROLLBACK")
        raise
