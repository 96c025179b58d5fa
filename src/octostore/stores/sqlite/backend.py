"""The SQLite backend: one connection that writes, and as many that read as are used at once."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import apsw

from octostore.core.errors import Unreachable
from octostore.core.needs import Needs
from octostore.stores.base import Counters
from octostore.stores.clock import Mark
from octostore.stores.gate import Gate
from octostore.stores.sqlite.asking import SQL, SqliteAsking
from octostore.stores.sqlite.connection import BUSY_TIMEOUT_MS, connect, prepare, set_patience
from octostore.stores.sqlite.faults import FaultsOf
from octostore.stores.transaction import Transaction

LOOK_SECONDS = 0.1
"""How often the log is looked at while somebody waits: a third of the 300 ms that are promised across processes."""
IDLE_READERS = 4
"""How many reading connections are kept open for later."""


class SqliteBackend:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._faults = FaultsOf(self.path)
        with self._faults:
            prepare(self.path)
            self._writer = connect(self.path)
        self._patience_ms = BUSY_TIMEOUT_MS
        self._gate = Gate()
        self._lock = threading.Lock()
        self._idle_readers: list[apsw.Connection] = []
        self._is_closed = False

    def writing(self, _needs: Needs) -> AbstractContextManager[Transaction]:
        return self._writing(BUSY_TIMEOUT_MS)

    def writing_at_once(self, _needs: Needs) -> AbstractContextManager[Transaction]:
        return self._writing(0)

    @contextmanager
    def _writing(self, patience_ms: int) -> Iterator[Transaction]:
        with self._faults, self._gate:
            if patience_ms != self._patience_ms:
                set_patience(self._writer, patience_ms)
                self._patience_ms = patience_ms
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                transaction = _transaction(self._writer)
                yield transaction
                # A batch that changed nothing has nothing to make durable.
                self._writer.execute("ROLLBACK" if transaction.saving is None else "COMMIT")
            except BaseException:
                # After some faults (a full disk, for one) SQLite has rolled back by itself.
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._faults, self._gate:
            connection = self._take_reader()
            try:
                connection.execute("BEGIN")
                yield _transaction(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._give_back(connection)

    def attend(self, ring: Callable[[], None]) -> None:
        """SQLite tells nobody, so the log is looked at."""

    @property
    def look_seconds(self) -> float:
        return LOOK_SECONDS

    def pause(self) -> None:
        self._gate.shut()

    def resume(self) -> None:
        self._gate.open()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            connections = [self._writer, *self._idle_readers]
            self._idle_readers.clear()
        for connection in connections:
            connection.close()

    def _take_reader(self) -> apsw.Connection:
        with self._lock:
            if self._is_closed:
                raise Unreachable("this store has been closed", reason="closed")
            if self._idle_readers:
                return self._idle_readers.pop()
        return connect(self.path)

    def _give_back(self, connection: apsw.Connection) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle_readers) < IDLE_READERS:
                self._idle_readers.append(connection)
                return
        connection.close()


def _transaction(connection: apsw.Connection) -> Transaction:
    ((seq, *mark),) = connection.execute(SQL["counters"])
    return Transaction(partial(SqliteAsking, connection), Counters(seq, Mark(*mark)))
