"""Copies of a store's file: backups taken while others write, and stores restored from them."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import apsw

from octostore.core.errors import InvalidInput, Unreachable
from octostore.core.events import Restored, encode_details
from octostore.stores.base import OnStep
from octostore.stores.clock import Mark, SystemClock
from octostore.stores.identity import no_store
from octostore.stores.sqlite.connection import check_whole, connect, is_current, migrate, version_of
from octostore.stores.sqlite.database import compiled
from octostore.stores.sqlite.faults import FaultsOf
from octostore.stores.sqlite.file import BESIDE, check_permissions, has_wal, is_there

AHEAD = 1_000_000_000
"""The minimum jump in a restored store's numbers: more than could have been used since the backup."""
NUMBERS_PER_MS = 1_000
"""The jump also grows with time, faster than numbers are used, in case the same backup is restored again."""
PAGES_PER_STEP = 4_096


def back_up(path: str, copy: str, on_step: OnStep | None) -> int:
    """Copy a snapshot of the store at `path` to a new file; returns its last event."""
    check_permissions(copy)
    _check_free(copy)
    with FaultsOf(copy), _part_of(copy) as part:
        seq = _copy(path, part, on_step)
        with closing(apsw.Connection(part)) as connection:
            connection.execute(compiled("note_closed"))
        _place(part, copy)
    return seq


def restore(copy: str, path: str, *, replace: bool, on_step: OnStep | None) -> tuple[int, str | None]:
    """Create a store at `path` from a backup: returns its next number, and where the previous store was moved to."""
    if not is_there(copy):
        raise InvalidInput("file", f"{copy} {'is empty' if os.path.exists(copy) else 'does not exist'}")
    path = os.path.realpath(path)
    for each in (copy, path):
        check_permissions(each)
    with FaultsOf(path):
        is_taken = is_there(path) or has_wal(path)
        if is_taken and not replace:
            raise InvalidInput("url", f"names {path}, which already exists; use --replace, or restore somewhere else")
        with _part_of(path) as part:
            _copy_backup(copy, part, on_step)
            seq = go_on_ahead(part)
            if is_taken or os.path.exists(path):
                return seq, _replace(part, path)
            _place(part, path)
            return seq, None


def go_on_ahead(path: str) -> int:
    """Move the numbers ahead, so that those used after the backup are not used again. Returns the next one."""
    check_permissions(path)
    with FaultsOf(path):
        if not is_there(path):
            raise no_store(path)
        with closing(connect(path)) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            if version_of(connection, path) == 0:
                raise no_store(path)
            migrate(connection, path)
            connection.execute("BEGIN IMMEDIATE")
            ((last, *mark),) = connection.execute("SELECT seq, now, boot_id, counted_ms FROM counters")
            now = SystemClock()(Mark(*mark))
            seq = max(int(last) + AHEAD, now.now * NUMBERS_PER_MS)
            event = (seq, now.now, "restored", "octostore", encode_details(Restored(after=last)))
            connection.execute("INSERT INTO events (seq, at, type, actor, details) VALUES (?, ?, ?, ?, ?)", event)
            connection.execute(
                "UPDATE counters SET seq = ?, now = ?, boot_id = ?, counted_ms = ?, is_open = 0", (seq, *now)
            )
            connection.execute("COMMIT")
        return seq


def _copy_backup(copy: str, part: str, on_step: OnStep | None) -> None:
    try:
        _copy(copy, part, on_step)
    except Unreachable as fault:
        if fault.reason in {"no_store", "not_a_database"}:
            raise InvalidInput("file", f"{copy} is not a backup of a store") from None
        raise


def _copy(path: str, part: str, on_step: OnStep | None) -> int:
    with FaultsOf(path), closing(apsw.Connection(part)) as target:
        had_wal = has_wal(path)
        source = connect(path)
        try:
            if version_of(source, path) == 0:
                raise no_store(path)
            if is_current(source):
                check_whole(source, path, had_wal=had_wal)
            return _copy_pages(source, target, on_step)
        finally:
            source.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, had_wal)  # leave its -wal alone
            source.close()


def _copy_pages(source: apsw.Connection, target: apsw.Connection, on_step: OnStep | None) -> int:
    source.execute("BEGIN")  # one snapshot, however long the copy takes
    try:
        seq = int(source.execute("SELECT seq FROM counters").get)
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(PAGES_PER_STEP)
                if on_step is not None:
                    on_step(copying.page_count - copying.remaining, copying.page_count)
    except apsw.FullError as error:
        folder = os.path.dirname(target.filename)
        raise Unreachable(
            f"there is not enough disk space in {folder} for the copy; the partial copy was removed", reason="disk_full"
        ) from error
    finally:
        source.execute("ROLLBACK")
    target.pragma("journal_mode", "delete")  # a single, self-contained file
    return seq


@contextmanager
def _part_of(path: str) -> Iterator[str]:
    """A temporary file next to `path`, removed afterwards."""
    part = f"{path}.part-{secrets.token_hex(4)}"
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield part
    finally:
        for side in ("", *BESIDE):
            with suppress(FileNotFoundError):
                os.unlink(part + side)


def _check_free(path: str) -> None:
    if os.path.lexists(path):
        raise InvalidInput("file", f"{path} already exists and was left unchanged")


def _place(part: str, path: str) -> None:
    """Rename durably and atomically, never over an existing file."""
    _sync(part)
    try:
        os.link(part, path)
    except FileExistsError:
        _check_free(path)
        raise
    _sync(os.path.dirname(os.path.abspath(path)))


def _replace(part: str, path: str) -> str | None:
    """Like `_place`, but moves what is there to another name first. Refused while the store is in use."""
    _sync(part)
    aside = _free_name(f"{path}.replaced-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    with _alone(path):
        if is_there(path):
            os.link(path, aside)
        for side in BESIDE:
            with suppress(FileNotFoundError):
                os.rename(path + side, aside + side)
        os.replace(part, path)  # atomic: at no moment is the path free for a new store
    _sync(os.path.dirname(path))
    return aside if any(os.path.exists(aside + side) for side in ("", *BESIDE)) else None


def _free_name(name: str) -> str:
    number, free = 1, name
    while any(os.path.lexists(free + side) for side in ("", *BESIDE)):
        number, free = number + 1, f"{name}-{number}"
    return free


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Hold the database at `path` exclusively: nobody else has it open, or can open it, during the block."""
    if not is_there(path):
        yield
        return
    with closing(apsw.Connection(path)) as connection:
        try:
            connection.pragma("journal_mode", "delete")  # only succeeds if nobody else has it open
            with suppress(apsw.SQLError):  # an older version, or not ours
                connection.execute(compiled("note_closed"))
            connection.execute("BEGIN EXCLUSIVE")
        except (apsw.CorruptError, apsw.NotADBError):
            pass  # it is damaged, which is why it is being replaced
        except apsw.BusyError:
            raise Unreachable(f"{path} is in use, so it was not replaced", reason="in_use") from None
        yield


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
