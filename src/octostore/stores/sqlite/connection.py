"""Opening the file: durable, shared, and of a version we know."""

import os
import time

import apsw

from octostore.core.errors import Unreachable

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


def connect(path: str | os.PathLike[str]) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(str(path), flags=flags, statementcachesize=STATEMENTS_KEPT)
    set_patience(connection, BUSY_TIMEOUT_MS)
    # Plans that do not depend on values: otherwise SQLite compiles a statement with `LIMIT ?` anew each time it is run,
    # which takes ten times as long as running it.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # FULL: every commit is on the disk before it is answered.
    connection.pragma("synchronous", "FULL")
    connection.wal_autocheckpoint(PAGES_PER_CHECKPOINT)
    return connection


def set_patience(connection: apsw.Connection, milliseconds: int) -> None:
    """How long it waits for others."""
    connection.set_busy_timeout(milliseconds)
    # Waiting for the write lock looks every millisecond then, where the busy handler's steps grow to 100 ms and let
    # one process starve while others take turns.
    connection.setlk_timeout(milliseconds, 0)


def prepare(path: str | os.PathLike[str]) -> None:
    """Create the file if there is none, and bring its schema up to date."""
    size = os.path.getsize(path) if os.path.exists(path) else None
    folder = os.path.dirname(os.path.abspath(path))
    if size and size < HEADER_BYTES:
        # SQLite takes a file of a few bytes for an empty database, and would write over them.
        raise _not_a_store(path, "it is too short to be an SQLite database")
    if size is None and os.path.isdir(folder) and not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} may not be written to")  # SQLite would only say that it cannot open it
    connection = connect(path)
    try:
        _refuse_strangers(connection, path)
        if size is None:
            # Lease ids are secrets, so nobody else may read the file. SQLite gives its -wal and -shm the same mode. Not
            # by creating the file ourselves: closing it would drop the locks that other threads have on it by then.
            os.chmod(path, 0o600)
        _migrate(connection, path)
    finally:
        connection.close()


def migrations() -> list[str]:
    """The scripts that lead from an empty file to the current schema; the version of a file is how many it has had."""
    scripts = []
    for name in _scripts():
        with open(os.path.join(MIGRATIONS, name), encoding="utf-8") as file:
            scripts.append(file.read())
    return scripts


def _scripts() -> list[str]:
    return sorted(name for name in os.listdir(MIGRATIONS) if name.endswith(".sql"))


def _not_a_store(path: str | os.PathLike[str], why: str) -> Unreachable:
    return Unreachable(f"{path} is no store: {why}; check the path. It was left as it is", reason="not_a_database")


def _refuse_strangers(connection: apsw.Connection, path: str | os.PathLike[str]) -> None:
    """Before anything is written: this must be ours, or empty, and no newer than we are."""
    # In this order: another process may be making the file at this moment, its tables and its mark in one step.
    is_empty = not connection.execute("SELECT count(*) FROM sqlite_schema").get
    if not is_empty and connection.pragma("application_id") != APPLICATION_ID:
        raise _not_a_store(path, "it is an SQLite database, but not OctoStore's")
    version, known = connection.pragma("user_version"), len(_scripts())
    if version > known:
        raise Unreachable(
            f"{path} has schema version {version}, and this OctoStore knows {known} at most; upgrade OctoStore. "
            "The file was left as it is",
            reason="newer_schema",
        )


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


def _migrate(connection: apsw.Connection, path: str | os.PathLike[str]) -> None:
    _switch_to_wal(connection)
    if connection.pragma("user_version") == len(_scripts()):
        return
    scripts = migrations()
    # Whoever comes first has the lock and does it; the others find it done.
    connection.execute("BEGIN IMMEDIATE")
    try:
        _refuse_strangers(connection, path)
        for script in scripts[connection.pragma("user_version") :]:
            connection.execute(script)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", len(scripts))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
