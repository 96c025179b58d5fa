"""Open the file: durable, shared, and of a version we know."""

import os
import stat
import time
from contextlib import suppress

import apsw

from octostore.core.errors import Unreachable
from octostore.stores.identity import no_store
from octostore.stores.sqlite.file import has_wal, is_cut_off, is_there, moved

APPLICATION_ID = 0x4F637453  # "OctS": distinguishes our files from other SQLite databases
HEADER_BYTES = 100
STATEMENTS_KEPT = 512
"""apsw's maximum. Each execution takes one slot of a ring, so a batch that runs more statements than this, row by row,
evicts every statement, and the next batch must recompile them all.
"""
MIGRATIONS = os.path.join(os.path.dirname(__file__), "migrations")
PAGES_PER_CHECKPOINT = 4_000
"""How many 4 KiB pages the -wal may have before a checkpoint: four times SQLite's default. Most are the same few pages
over and over, and only their last state is copied.
"""
BUSY_TIMEOUT_MS = 10_000
"""How long to wait for other processes' transactions, which take milliseconds each, before giving up."""


def connect(path: str | os.PathLike[str], *, create: bool = False, is_alone: bool = False) -> apsw.Connection:
    """`is_alone` locks the file against other processes, and then needs no -shm, for which a full disk has no room."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(os.fspath(path), flags=flags, statementcachesize=STATEMENTS_KEPT)
    try:
        _configure(connection, is_alone=is_alone)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_writer(path: str) -> apsw.Connection:
    """Without the triggers that keep the log append-only for other programs.

    Our own statements only insert, and the primary key refuses a `seq` that exists. Running the triggers for each event
    would add a tenth to the cost of a batch.
    """
    connection = connect(path)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    # A statement that writes several rows first copies the pages it changes. By default, copies of more than 64 KiB go
    # to a temporary file. That takes time, and a folder for such files, which not every machine has.
    connection.pragma("temp_store", "memory")
    return connection


def _configure(connection: apsw.Connection, *, is_alone: bool) -> None:
    set_patience(connection, BUSY_TIMEOUT_MS)
    if is_alone:
        connection.pragma("locking_mode", "exclusive")
    # Plans independent of values: otherwise SQLite recompiles a statement with `LIMIT ?` each time it runs, which takes
    # ten times as long as running it.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # FULL: every commit is on disk before its callers get a reply.
    connection.pragma("synchronous", "FULL")
    connection.wal_autocheckpoint(PAGES_PER_CHECKPOINT)
    # By default, the last connection to close copies the -wal into the database and deletes it. Only some should.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)


def set_patience(connection: apsw.Connection, milliseconds: int) -> None:
    """How long to wait for other processes."""
    connection.set_busy_timeout(milliseconds)
    # This polls for the write lock every millisecond. The busy handler's steps grow to 100 ms, and let one process
    # starve while others take turns.
    connection.setlk_timeout(milliseconds, 0)


def make(path: str) -> None:
    """Create a store, unless another process creates it first."""
    is_new = not is_there(path)
    # Lease ids are secrets, so only the owner may ever read the file. SQLite creates the -wal and -shm with the same
    # mode. Do not open the file for this: closing it would drop the locks of other threads in this process.
    with suppress(FileExistsError, PermissionError):  # outside Linux, only root may do this
        os.mknod(os.path.realpath(path), stat.S_IFREG | 0o600)
    connection = connect(path, create=True)
    try:
        if is_new:
            os.chmod(path, 0o600)
        # Create all tables in the database file itself, in one step, so that without its -wal it never looks new.
        migrate(connection, path)
        _switch_to_wal(connection)
    finally:
        connection.close()  # without copying the -wal: it belongs to a faster process, and may still be marked as open


def prepare(path: str, *, is_alone: bool = False) -> apsw.Connection:
    """Connect to a store that is certain to be one, complete and up to date."""
    try:
        return _prepare(path, is_alone=is_alone)
    except apsw.CorruptError:
        if is_cut_off(path):
            raise moved(
                path, "it is shorter than its header says: cut off, or without its write-ahead log (-wal)"
            ) from None
        raise


def _prepare(path: str, *, is_alone: bool) -> apsw.Connection:
    if os.path.getsize(path) < HEADER_BYTES:
        # SQLite takes a file of a few bytes for an empty database, and would overwrite them.
        raise _not_a_store(path, "it is too short to be a SQLite database")
    had_wal = has_wal(path)
    connection = connect(path, is_alone=is_alone)
    try:
        _update(connection, path)
        check_whole(connection, path, had_wal=had_wal)
    except BaseException:
        # The -wal stays as it is until a process that has written closes the database.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, had_wal)
        connection.close()
        raise
    return connection


def _update(connection: apsw.Connection, path: str) -> None:
    version = version_of(connection, path)
    if version == 0 and os.path.getsize(path) == 0:
        raise no_store(path)  # its creator was killed halfway, and opening it rolled back
    if version == 0:
        raise _not_a_store(path, "it is a SQLite database, but an empty one")
    _switch_to_wal(connection)
    if version < len(_scripts()):
        migrate(connection, path)


def is_current(connection: apsw.Connection) -> bool:
    return bool(connection.pragma("user_version") == len(_scripts()))


def check_whole(connection: apsw.Connection, path: str, *, had_wal: bool) -> None:
    is_open = connection.execute("SELECT is_open FROM counters").get
    # Another process may have opened it just now, and created a -wal.
    if is_open and not had_wal and not has_wal(path):
        raise moved(path, "its write-ahead log (-wal) is missing, and with it what was written last")


def migrations() -> list[str]:
    """The scripts that build the current schema; a file's version is the number of scripts it has run."""
    scripts = []
    for name in _scripts():
        with open(os.path.join(MIGRATIONS, name), encoding="utf-8") as file:
            scripts.append(file.read())
    return scripts


def _scripts() -> list[str]:
    return sorted(name for name in os.listdir(MIGRATIONS) if name.endswith(".sql"))


def _not_a_store(path: str, why: str) -> Unreachable:
    return Unreachable(
        f"{path} is not an OctoStore store: {why}; check the path. The file was not changed", reason="not_a_database"
    )


def version_of(connection: apsw.Connection, path: str) -> int:
    """Its schema version; 0 if it is empty. Before anything is written, it must be ours and not newer than we are."""
    # In this order: another process may be creating the file right now, its tables and its id in one step.
    is_empty = not connection.execute("SELECT count(*) FROM sqlite_schema").get
    if not is_empty and connection.pragma("application_id") != APPLICATION_ID:
        raise _not_a_store(path, "it is a SQLite database, but not OctoStore's")
    version, known = int(connection.pragma("user_version")), len(_scripts())
    if version > known:
        raise Unreachable(
            f"{path} has schema version {version}, but this OctoStore knows only {known}; upgrade OctoStore. "
            "The file was not changed",
            reason="newer_schema",
        )
    return version


def _switch_to_wal(connection: apsw.Connection) -> None:
    """Once in a file's life. SQLite does not wait for others here, so we do."""
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
    # The first to get the lock does it; the others find it done.
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in scripts[version_of(connection, path) :]:
            connection.execute(script)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", len(scripts))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # on a full disk, SQLite has already rolled back
            connection.execute("ROLLBACK")
        raise
