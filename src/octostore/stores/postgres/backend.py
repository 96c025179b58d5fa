"""The PostgreSQL backend: one connection writes, one listens, and as many read as are in use."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from uuid import uuid4

import psycopg

from octostore.core.errors import InvalidInput, Unreachable
from octostore.core.needs import Needs
from octostore.stores.base import Counters, OnStep, TryAgain
from octostore.stores.clock import Mark
from octostore.stores.database import Database, Result
from octostore.stores.finding import Finding
from octostore.stores.gate import Gate
from octostore.stores.identity import Identity
from octostore.stores.postgres.connection import Connection, DatabaseAddress, connect, disown, migrate, prepare
from octostore.stores.postgres.faults import is_lost, translating_faults
from octostore.stores.postgres.listener import Listener
from octostore.stores.postgres.pipeline import Pipeline, compiled
from octostore.stores.postgres.statements import load_sql
from octostore.stores.readers import Readers
from octostore.stores.retrying import retrying
from octostore.stores.transaction import Transaction

STUCK_SECONDS = 5
"""A process that stalls in the middle of a transaction loses it after this long, and the others continue."""
LIMITS = {"lock": "10s", "statement": "12s", "idle": f"{STUCK_SECONDS}s", "transaction": "30s"}
PLAN_AGAIN_AFTER = 256
"""In batches. Statements are planned once, and a plan is only good for tables of about the size they had then."""
WRITER_LIFE_MS = 7 * 86_400_000
"""How long to remember what each process wrote last. The process asks within minutes, if at all."""
LOOK_SECONDS = 1.0
POLL_ALONE_SECONDS = 0.1
"""How often to poll the log while someone waits: with a listener that reports news, and without."""


class PostgresBackend:
    """`now` replaces the database's clock in tests."""

    def __init__(
        self, address: DatabaseAddress, now: Callable[[], int] | None = None, identity: Identity | None = None
    ) -> None:
        self._address = address
        self._identity = identity or Identity()
        self._now: Callable[[], int | None] = now or (lambda: None)
        self._sql = compiled(load_sql(address.schema))
        self._gate = Gate()
        self._lock = threading.Lock()
        self._readers = Readers(partial(connect, address.url), lambda connection: not connection.closed)
        self._pid = os.getpid()
        self._writer_id = uuid4()
        self._batch = 0
        self._listener: Listener | None = None
        self._writer: Connection | None = None
        self._proven: Connection | None = None
        """The connection on which a commit was last confirmed."""
        self._is_there = False
        """Whether the store exists and has a version we know."""
        with _final(address):
            self._writer = connect(address.url)
            try:
                self._prepare(self._writer)
            except BaseException as fault:
                if getattr(fault, "reason", "") != "no_store":
                    self._writer.close()
                    raise

    # Writing

    writing_at_once = None

    def create(self) -> None:
        with self._gate, translating_faults(self._address):
            self._writer = self._living_writer()
            migrate(self._writer, self._address)

    def _prepare(self, connection: Connection) -> None:
        """Runs once the store exists. Until then, another process may create it at any time."""
        if not self._is_there:
            prepare(connection, self._address)
            self._is_there = True

    @contextmanager
    def writing(self, needs: Needs) -> Iterator[Transaction]:
        with self._gate, translating_faults(self._address):
            connection = self._writer = self._living_writer()
            try:
                self._prepare(connection)
                transaction = self._begin(connection, needs)
                yield transaction
                saving = transaction.saving
                if saving is None and self._proven is not connection:
                    # A restarted primary may show commits its standby does not have. Reply to nothing based on them
                    # before a commit of our own, and with it all before, is on the standby.
                    saving = Pipeline(connection, self._sql)
                if saving is None:
                    self._end(connection)
            except BaseException:
                self._undo(connection)
                raise
            if saving is not None:
                self._commit(connection, saving, has_news=transaction.has_news)

    def _begin(self, connection: Connection, needs: Needs) -> Transaction:
        database = Pipeline(connection, self._sql)
        counters = self._ask_for_lock(database)
        if self._batch % PLAN_AGAIN_AFTER == 0:
            database.query("plan_again")
        found = Finding(database, needs)
        database.run()
        return self._transaction(connection, counters, found)

    def _ask_for_lock(self, database: Pipeline) -> Result:
        database.query("begin")
        database.query("limits", **LIMITS)
        return database.query("lock", now=self._now(), **LIMITS)

    def _commit(self, connection: Connection, saving: Database, *, has_news: bool) -> None:
        self._batch += 1
        if self._batch == 1:
            saving.query("forget_writers", age=WRITER_LIFE_MS)
        saving.query("mark_batch", writer=self._writer_id, batch=self._batch)
        if has_news:
            saving.query("notify", channel=self._address.schema)
        # It may wait for a synchronous standby, which our timeouts do not cover: they end before it.
        saving.query("commit")
        try:
            saving.run()
        except BaseException as error:
            is_unknown = is_lost(error)
            if is_unknown:
                connection.close()
            self._undo(connection)
            if not is_unknown or not self._was_committed(error):
                raise
        else:
            self._proven = connection

    def _was_committed(self, error: BaseException) -> bool:
        """Whether the last batch was committed, if the connection was lost during its COMMIT."""
        try:
            return retrying(self._look_for_batch)
        except Unreachable as fault:
            raise Unreachable(
                f"the connection to {self._address} was lost during a commit, and the database cannot be asked whether "
                f"it succeeded: {fault}",
                reason="network",
            ) from error

    def _look_for_batch(self) -> bool:
        """The lost transaction held the lock, so the next to hold it sees the outcome.

        This check is itself committed, so what it saw is as durable as any reply, also if a standby must confirm it.
        """
        with translating_faults(self._address):
            connection = self._writer = self._living_writer()
            try:
                database = Pipeline(connection, self._sql)
                self._ask_for_lock(database)
                found = database.query("last_batch", writer=self._writer_id)
                database.run()
                last = found.rows[0][0] if found.rows else 0
                looked = Pipeline(connection, self._sql)
                # Unchanged: if this COMMIT is lost too, the next check must see the same.
                looked.query("mark_batch", writer=self._writer_id, batch=last)
                looked.query("commit")
                looked.run()
            except BaseException:
                self._undo(connection)
                raise
            self._proven = connection
            return bool(last == self._batch)

    def _transaction(self, connection: Connection, counters: Result, found: Finding | None = None) -> Transaction:
        if not counters.rows:  # a backup was restored since this transaction began
            raise TryAgain(Unreachable(f"{self._address} is being restored", reason="busy"))
        # `now` is a transaction-local setting.
        seq, store_id, now, *_ = counters.rows[0]
        self._identity.check(store_id, self._address)
        return Transaction(
            lambda _now: Pipeline(connection, self._sql), Counters(seq, Mark(now, "", 0), store_id), found
        )

    def _end(self, connection: Connection) -> None:
        """End a transaction that changed nothing."""
        ending = Pipeline(connection, self._sql)
        ending.query("commit")
        ending.run()

    def _living_writer(self) -> Connection:
        if self._readers.is_closed:
            raise Unreachable("this store has been closed", reason="closed")
        if self._writer is None or self._writer.closed:
            return connect(self._address.url)
        return self._writer

    def _undo(self, connection: Connection) -> None:
        """Roll back; the next transaction uses a new connection if this one is broken."""
        try:
            if not connection.closed:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()

    # Reading

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._gate, translating_faults(self._address):
            connection = self._readers.take()
            try:
                self._prepare(connection)
                database = Pipeline(connection, self._sql)
                database.query("begin_reading")
                database.query("limits", **LIMITS)
                counters = database.query("counters", now=self._now())
                database.run()
                yield self._transaction(connection, counters)
                self._end(connection)
            except BaseException as error:
                if is_lost(error):
                    self._readers.drop()
                self._undo(connection)
                raise
            finally:
                self._readers.put_back(connection)

    # Listening

    def back_up(self, _copy: str, _on_step: OnStep | None) -> int:
        raise InvalidInput("url", "names a PostgreSQL database; back it up with pg_dump, see docs/how-to/postgres.md")

    def on_foreign_commit(self, ring: Callable[[], None]) -> None:
        with self._gate, self._lock:
            if self._listener is None and not self._readers.is_closed:
                self._listener = Listener(self._address, ring)

    @property
    def poll_seconds(self) -> float:
        return LOOK_SECONDS if self._listener is not None and self._listener.is_connected else POLL_ALONE_SECONDS

    # The process

    def pause(self) -> None:
        self._gate.shut()

    def resume(self) -> None:
        self._gate.open()

    def close(self) -> None:
        with self._lock:
            connections = self._readers.end()
            listener = self._listener
        if self._writer is not None:
            connections.append(self._writer)
        if listener is not None:
            listener.close(is_ours=os.getpid() == self._pid)
        for connection in connections:
            if os.getpid() != self._pid:
                disown(connection)
            connection.close()


@contextmanager
def _final(address: DatabaseAddress) -> Iterator[None]:
    """While opening a store, fail immediately instead of retrying."""
    try:
        with translating_faults(address):
            yield
    except TryAgain as failed:
        raise failed.fault from failed
