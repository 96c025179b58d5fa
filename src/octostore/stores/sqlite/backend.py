"""The SQLite backend: one connection that writes, and as many that read as are used at once."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import apsw

from octostore.core.needs import Needs
from octostore.stores.base import Counters
from octostore.stores.clock import Mark
from octostore.stores.gate import Gate
from octostore.stores.readers import Readers
from octostore.stores.sqlite.asking import SqliteAsking, compiled
from octostore.stores.sqlite.connection import BUSY_TIMEOUT_MS, connect, prepare, set_patience
from octostore.stores.sqlite.faults import FaultsOf
from octostore.stores.transaction import Transaction

LOOK_SECONDS = 0.1
"""How often the log is looked at while somebody waits: a third of the 300 ms that are promised across processes."""


class SqliteBackend:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._faults = FaultsOf(self.path)
        with self._faults:
            prepare(self.path)
            self._writer = connect(self.path)
        self._patience_ms = BUSY_TIMEOUT_MS
        self._gate = Gate()
        self._readers = Readers(partial(connect, self.path))

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
            connection = self._readers.take()
            try:
                connection.execute("BEGIN")
                yield _transaction(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._readers.give_back(connection)

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
        for connection in [self._writer, *self._readers.end()]:
            connection.close()


def _transaction(connection: apsw.Connection) -> Transaction:
    ((seq, now, boot_id, counted_ms, next_expiry),) = connection.execute(compiled("counters"))
    counters = Counters(seq, Mark(now, boot_id, counted_ms), next_expiry)
    return Transaction(partial(SqliteAsking, connection), counters)
