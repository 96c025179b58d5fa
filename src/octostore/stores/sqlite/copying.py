"""Copies of a store's file: a backup that is taken while others write, and a store that is made from one."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import apsw

from octostore.core.errors import InvalidInput, Unreachable
from octostore.core.events import Restored, encode_details
from octostore.stores.base import OnStep
from octostore.stores.sqlite.asking import compiled
from octostore.stores.sqlite.connection import connect, migrate, version_of
from octostore.stores.sqlite.faults import FaultsOf
from octostore.stores.sqlite.file import has_wal, is_there, no_store

AHEAD = 1_000_000_000
"""By how much a restored store's numbers go on: more than can have been given out since the backup."""
PAGES_PER_STEP = 4_096
SIDES = ("", "-wal", "-shm")


def back_up(path: str, copy: str, on_step: OnStep | None) -> int:
    """Copy the store at `path`, as it is at this moment, to a new file; gives the last event in it."""
    with FaultsOf(copy), _new_file(copy) as part:
        seq = _copy(path, part, on_step)
        with closing(connect(part)) as connection:
            connection.execute(compiled("note_closed"))
    return seq


def restore(copy: str, path: str, *, replace: bool, on_step: OnStep | None) -> tuple[int, str | None]:
    """Make a store at `path` of a backup: the number that it goes on with, and where the one that was there is now."""
    if not is_there(copy):
        raise InvalidInput("file", f"{copy} is no backup: nothing is there")
    with FaultsOf(path):
        if any(is_there(path + side) for side in SIDES) and not replace:
            raise InvalidInput("url", f"names {path}, where there is something; use --replace, or restore elsewhere")
        with _new_file(path) as part:
            _copy(copy, part, on_step)
            seq = go_on_ahead(part)
            aside = _put_aside(path) if replace else None
        return seq, aside


def go_on_ahead(path: str) -> int:
    """Numbers that were given out after a backup are not given out again: they go on above. Says with which."""
    with FaultsOf(path):
        if not is_there(path):
            raise no_store(path)
        with closing(connect(path)) as connection:
            if version_of(connection, path) == 0:
                raise no_store(path)
            migrate(connection, path)
            connection.execute("BEGIN IMMEDIATE")
            ((last, now),) = connection.execute("SELECT seq, now FROM counters")
            seq, now = int(last) + AHEAD, max(now, time.time_ns() // 1_000_000)
            event = (seq, now, "restored", "octostore", encode_details(Restored(after=last)))
            connection.execute("INSERT INTO events (seq, at, type, actor, details) VALUES (?, ?, ?, ?, ?)", event)
            connection.execute("UPDATE counters SET seq = ?, now = ?, is_open = 0", (seq, now))
            connection.execute("COMMIT")
        return seq


def _copy(path: str, part: str, on_step: OnStep | None) -> int:
    had_wal = has_wal(path)
    source, target = connect(path), apsw.Connection(part)
    try:
        if version_of(source, path) == 0:
            raise no_store(path)
        source.execute("BEGIN")  # one state, however long it takes and whatever others write meanwhile
        seq = int(source.execute("SELECT seq FROM counters").get)
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(PAGES_PER_STEP)
                if on_step is not None:
                    on_step(copying.page_count - copying.remaining, copying.page_count)
        target.pragma("journal_mode", "delete")  # one file, with everything in it
        return seq
    finally:
        if source.in_transaction:
            source.execute("ROLLBACK")
        source.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, had_wal)  # it is not ours to tidy up
        source.close()
        target.close()


@contextmanager
def _new_file(path: str) -> Iterator[str]:
    """What the block writes comes to be at `path` when it has ended, durable and in one step; never over something."""
    part = f"{path}.part-{os.getpid()}"
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        yield part
        _sync(part)
        os.link(part, path)
        _sync(os.path.dirname(os.path.abspath(path)))
    except FileExistsError:
        raise InvalidInput("file", f"{path} exists already, and is left as it is") from None
    finally:
        for side in SIDES:
            with suppress(FileNotFoundError):
                os.unlink(part + side)


def _put_aside(path: str) -> str | None:
    """What is at `path`, under another name. Refused while somebody uses it."""
    aside = f"{path}.replaced-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    with _alone(path):
        for side in SIDES:
            with suppress(FileNotFoundError):
                os.rename(path + side, aside + side)
    return aside if is_there(aside) else None


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Nobody else has the database at `path` open, and nobody gets at it during the block."""
    if not is_there(path):
        yield
        return
    connection = apsw.Connection(path)
    try:
        try:
            connection.pragma("journal_mode", "delete")  # which needs that nobody else is there
            connection.execute("BEGIN EXCLUSIVE")
        except (apsw.CorruptError, apsw.NotADBError):
            pass  # it is damaged, which is why it is replaced
        except apsw.BusyError:
            raise Unreachable(f"{path} is in use; stop what uses it, and try again", reason="busy") from None
        yield
    finally:
        connection.close()


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
