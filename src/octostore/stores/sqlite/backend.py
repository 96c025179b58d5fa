"""The SQLite backend: one connection writes, and as many read as are in use."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import apsw

from octostore.core.errors import Unreachable
from octostore.core.needs import Needs
from octostore.stores.base import Counters, OnStep
from octostore.stores.clock import Mark
from octostore.stores.gate import Gate
from octostore.stores.identity import Identity, no_store
from octostore.stores.readers import Readers
from octostore.stores.sqlite.connection import BUSY_TIMEOUT_MS, connect, connect_writer, make, prepare, set_patience
from octostore.stores.sqlite.database import SqliteDatabase, compiled
from octostore.stores.sqlite.faults import FaultsOf
from octostore.stores.sqlite.file import OpenedFile, check_permissions, check_room, is_there
from octostore.stores.transaction import Transaction

LOOK_SECONDS = 0.1
"""How often to poll the log while someone waits: a third of the 300 ms promised across processes."""


class SqliteBackend:
    """`is_alone` is for one read on a full disk: see `connect`. The file stays locked until `close`."""

    def __init__(
        self, path: str | os.PathLike[str], identity: Identity | None = None, *, is_alone: bool = False
    ) -> None:
        self.path = os.fspath(path)
        self._identity = identity or Identity()
        self._faults = FaultsOf(self.path)
        self._pid = os.getpid()
        self._opening = threading.Lock()
        self._opened: OpenedFile | None = None
        self._patience_ms = BUSY_TIMEOUT_MS
        self._writer: apsw.Connection | None = None
        self._is_marked = False
        """Whether the database file records that it depends on its -wal, as far as we know."""
        self._gate = Gate()
        self._is_alone = is_alone
        self._readers = Readers(partial(connect, self.path, is_alone=is_alone))
        try:
            with self._faults:
                self._open()
        except Unreachable as fault:
            if fault.reason != "no_store":
                raise

    def create(self) -> None:
        with self._faults, self._gate:
            if not is_there(self.path):
                check_permissions(self.path)
                check_room(self.path)
                make(self.path)

    def _open(self) -> OpenedFile:
        with self._opening:
            if self._readers.is_closed:
                raise Unreachable("this store has been closed", reason="closed")
            if self._opened is None:
                check_permissions(self.path)
                if not is_there(self.path):
                    check_room(self.path)
                    raise no_store(self.path)
                opened = OpenedFile(self.path)
                self._readers.put_back(prepare(self.path, is_alone=self._is_alone))
                self._opened = opened
            return self._opened

    def writing(self, _needs: Needs) -> AbstractContextManager[Transaction]:
        return self._writing(BUSY_TIMEOUT_MS)

    def writing_at_once(self, _needs: Needs) -> AbstractContextManager[Transaction]:
        return self._writing(0)

    @contextmanager
    def _writing(self, patience_ms: int) -> Iterator[Transaction]:
        with self._faults, self._gate:
            file = self._opened or self._open()
            writer = self._writer = self._writer or connect_writer(self.path)
            if patience_ms != self._patience_ms:
                set_patience(writer, patience_ms)
                self._patience_ms = patience_ms
            writer.execute("BEGIN IMMEDIATE")
            try:
                file.check()
                counters, is_open = self._counters(writer)
                transaction = Transaction(partial(SqliteDatabase, writer), counters)
                yield transaction
                if transaction.saving is None:
                    writer.execute("ROLLBACK")  # nothing to make durable
                else:
                    writer.execute("COMMIT")
                    self._is_marked = (self._is_marked and is_open) or _mark(writer)
                file.check()
            except BaseException:
                # After some faults (a full disk, for one) SQLite has already rolled back.
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._faults, self._gate:
            file = self._opened or self._open()
            file.check()
            connection = self._readers.take()
            try:
                connection.execute("BEGIN")
                counters, _ = self._counters(connection)
                yield Transaction(partial(SqliteDatabase, connection), counters)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._readers.put_back(connection)

    def _counters(self, connection: apsw.Connection) -> tuple[Counters, bool]:
        """Also whether the database file records that it depends on its -wal."""
        ((seq, now, boot_id, counted_ms, store_id, is_open, next_expiry),) = connection.execute(compiled("counters"))
        self._identity.check(store_id, self.path)
        return Counters(seq, Mark(now, boot_id, counted_ms), store_id, next_expiry), is_open

    def back_up(self, copy: str, on_step: OnStep | None) -> int:
        from octostore.stores.sqlite.copying import back_up  # noqa: PLC0415  # rarely needed

        with self._faults, self._gate:
            (self._opened or self._open()).check()
            return back_up(self.path, copy, on_step)

    def on_foreign_commit(self, ring: Callable[[], None]) -> None:
        """SQLite cannot notify us, so the log is polled."""

    @property
    def poll_seconds(self) -> float:
        return LOOK_SECONDS

    def pause(self) -> None:
        self._gate.shut()

    def resume(self) -> None:
        self._gate.open()

    def close(self) -> None:
        connections = self._readers.end()
        opened, self._opened = self._opened, None
        if opened is None:
            return
        is_ours = os.getpid() == self._pid and opened.is_in_place
        if self._writer is not None:
            connections.append(self._writer)
        # The -wal is deleted by name, which may belong to another file by now.
        keeps_wal = not (is_ours and connections and _is_whole(connections[-1], has_written=self._writer is not None))
        for connection in connections:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keeps_wal)
            connection.close()


def _mark(writer: apsw.Connection) -> bool:
    """Checkpoint the -wal, and with it `is_open`, so that a process that finds no -wal can tell it is missing.

    Returns False if it could not: a long-running reader, like a backup, keeps newer pages out, and we do not wait.
    """
    try:
        pages, copied = writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.Error:
        return False  # what was written is durable either way
    return pages == copied


def _is_whole(connection: apsw.Connection, *, has_written: bool) -> bool:
    """Whether the database is complete without its -wal, once that has been checkpointed and deleted."""
    try:
        if has_written:
            set_patience(connection, 0)
            connection.execute(compiled("note_closed"))
        return not connection.execute(compiled("is_open")).get
    except apsw.Error:
        return False  # the disk may be full, or another process may be writing
