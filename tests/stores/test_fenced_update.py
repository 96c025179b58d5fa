"""Fenced writes in real databases: SQLite through sqlite3 and apsw, PostgreSQL through psycopg."""

import multiprocessing
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import rows

from octostore.client.embedded import EmbeddedPort
from octostore.client.store import OctoStore
from octostore.core.errors import InvalidInput
from octostore.core.replies import ClaimReply
from octostore.fencing import MissingRow, ParamStyle, StaleToken, build_fenced_update, fenced_update
from octostore.stores.base import Backend
from octostore.stores.clock import Clock, Mark
from octostore.stores.memory import MemoryBackend
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore
from tests.support.world import START_MS, ManualClock

TTL_SECONDS = 10
PATIENCE_SECONDS = 60

SQLITE_STYLES: tuple[ParamStyle, ...] = ("qmark", "named")
PSYCOPG_STYLES: tuple[ParamStyle, ...] = ("format", "pyformat")


class Bank:
    """A database with `accounts`, where account 1 has 100. Connections commit each statement separately."""

    def __init__(
        self,
        open_connection: Callable[[], Any],
        *,
        schema: str = "main",
        styles: tuple[ParamStyle, ...] = SQLITE_STYLES,
    ) -> None:
        self._open = open_connection
        self._connections: list[Any] = []
        self.schema = schema
        self.styles = styles
        self.db, self._other = self.connect(), self.connect()
        self.db.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, fence BIGINT)")
        self.db.execute("INSERT INTO accounts VALUES (1, 100, NULL), (2, 200, NULL)")

    def connect(self) -> Any:
        connection = self._open()
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def row(self, account: int = 1) -> tuple[int, int | None]:
        """The committed balance and fence."""
        (row,) = self._other.execute(f"SELECT balance, fence FROM accounts WHERE id = {account}").fetchall()
        balance, fence = row
        return balance, fence


def open_sqlite3(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False)


def open_apsw(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(PATIENCE_SECONDS * 1_000)
    return connection


@pytest.fixture(params=["sqlite3", "apsw", "psycopg"])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    path = tmp_path / "bank.db"
    if request.param == "psycopg":
        with postgres_bank(request.getfixturevalue("postgres_url")) as bank:
            yield bank
        return
    bank = Bank(lambda: open_sqlite3(path) if request.param == "sqlite3" else open_apsw(path))
    yield bank
    bank.close()


@contextmanager
def postgres_bank(url: str) -> Iterator[Bank]:
    schema = f"bank_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA {schema}".encode())
        bank = Bank(
            lambda: psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}"),
            schema=schema,
            styles=PSYCOPG_STYLES,
        )
        yield bank
        bank.close()
        admin.execute(f"DROP SCHEMA {schema} CASCADE".encode())


@pytest.fixture
def pg(postgres_url: str) -> Iterator[Bank]:
    with postgres_bank(postgres_url) as bank:
        yield bank


def write(db: Any, balance: int, token: int, **options: Any) -> None:
    fenced_update(db, "accounts", key={"id": 1}, values={"balance": balance}, token=token, **options)


# Written, stale or missing


def test_a_write_leaves_its_token_and_touches_no_other_row(bank: Bank) -> None:
    write(bank.db, 110, token=5)
    assert bank.row(1) == (110, 5)
    assert bank.row(2) == (200, None)


def test_a_lower_token_is_stale_and_changes_nothing(bank: Bank) -> None:
    write(bank.db, 110, token=5)
    with pytest.raises(StaleToken) as refused:
        write(bank.db, 90, token=4)
    assert (refused.value.key, refused.value.token, refused.value.current) == ({"id": 1}, 4, 5)
    assert bank.row() == (110, 5)


def test_a_row_that_does_not_exist_is_missing_not_stale(bank: Bank) -> None:
    with pytest.raises(MissingRow) as refused:
        fenced_update(bank.db, "accounts", key={"id": 3}, values={"balance": 0}, token=5)
    assert (refused.value.table, refused.value.key) == ("accounts", {"id": 3})


def test_the_owner_writes_as_often_as_it_likes(bank: Bank) -> None:
    write(bank.db, 110, token=5)
    write(bank.db, 120, token=5)
    assert bank.row() == (120, 5)


def test_once_refuses_the_second_write_of_a_claim(bank: Bank) -> None:
    write(bank.db, 110, token=5, once=True)
    with pytest.raises(StaleToken) as refused:
        write(bank.db, 120, token=5, once=True)
    assert refused.value.current == 5
    assert bank.row() == (110, 5)
    write(bank.db, 130, token=6, once=True)
    assert bank.row() == (130, 6)


def test_without_values_only_the_fence_rises(bank: Bank) -> None:
    fenced_update(bank.db, "accounts", key={"id": 1}, token=5)
    assert bank.row() == (100, 5)
    with pytest.raises(StaleToken):
        write(bank.db, 90, token=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5) | st.just(2**63 - 1), st.booleans()), max_size=10))
def test_any_history_matches_the_model(bank: Bank, calls: list[tuple[int, bool]]) -> None:
    bank.db.execute("UPDATE accounts SET balance = 0, fence = NULL WHERE id = 1")
    expected: tuple[int, int | None] = (0, None)
    for balance, (token, once) in enumerate(calls, 1):
        fence = expected[1]
        if fence is None or token > fence or (token == fence and not once):
            expected = (balance, token)
            write(bank.db, balance, token, once=once)
        else:
            with pytest.raises(StaleToken) as refused:
                write(bank.db, balance, token, once=once)
            assert refused.value.current == fence
    assert bank.row() == expected


# Drivers


def test_a_cursor_works_too(bank: Bank) -> None:
    write(bank.db.cursor(), 110, token=5)
    with pytest.raises(StaleToken):
        write(bank.db.cursor(), 90, token=4)
    assert bank.row() == (110, 5)


def test_every_style_of_each_driver(bank: Bank) -> None:
    for token, style in enumerate(bank.styles, 5):
        write(bank.db, 100 + token, token=token, paramstyle=style)
        assert bank.row() == (100 + token, token)
        with pytest.raises(StaleToken):
            write(bank.db, 90, token=token - 1, paramstyle=style)


def test_dollar_parameters_with_a_raw_cursor(pg: Bank) -> None:
    cursor = psycopg.RawCursor(pg.db)
    write(cursor, 110, token=5, paramstyle="numeric_dollar")
    with pytest.raises(StaleToken):
        write(cursor, 90, token=4, paramstyle="numeric_dollar")
    assert pg.row() == (110, 5)


def test_the_statements_can_be_run_separately(bank: Bank) -> None:
    bank.db.execute("UPDATE accounts SET fence = 6")
    update = build_fenced_update("accounts", key={"id": 1}, values={"balance": 0}, token=5, paramstyle=bank.styles[0])
    assert bank.db.execute(*update.write).fetchall() == []
    refusal = update.refusal(bank.db.execute(*update.look).fetchall())
    assert isinstance(refusal, StaleToken)
    assert refusal.current == 6


class Wrapper:
    def __init__(self, db: Any) -> None:
        self.execute = db.execute


def test_an_unknown_connection_needs_an_explicit_paramstyle(bank: Bank) -> None:
    with pytest.raises(InvalidInput, match="paramstyle"):
        write(Wrapper(bank.db), 110, token=5)
    write(Wrapper(bank.db), 110, token=5, paramstyle=bank.styles[0])
    assert bank.row() == (110, 5)


class OwnConnection(sqlite3.Connection):
    pass


def test_a_subclass_of_a_known_connection_is_known(tmp_path: Path) -> None:
    bank = Bank(lambda: sqlite3.connect(tmp_path / "bank.db", isolation_level=None, factory=OwnConnection))
    write(bank.db, 110, token=5)
    assert bank.row() == (110, 5)
    bank.close()


def sqlite_dicts(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip((column[0] for column in cursor.description), row, strict=True))


def assert_writes_are_fenced(db: Any) -> None:
    write(db, 110, token=5)
    with pytest.raises(StaleToken) as refused:
        write(db, 90, token=4)
    assert refused.value.current == 5
    with pytest.raises(MissingRow):
        fenced_update(db, "accounts", key={"id": 3}, token=5)


@pytest.mark.parametrize("shape", [rows.tuple_row, rows.dict_row, rows.namedtuple_row, rows.scalar_row])
def test_psycopg_rows_of_any_shape(pg: Bank, shape: Any) -> None:
    pg.db.row_factory = shape
    assert_writes_are_fenced(pg.db)


@pytest.mark.parametrize("shape", [None, sqlite3.Row, sqlite_dicts])
def test_sqlite3_rows_of_any_shape(tmp_path: Path, shape: Any) -> None:
    bank = Bank(lambda: open_sqlite3(tmp_path / "bank.db"))
    bank.db.row_factory = shape
    assert_writes_are_fenced(bank.db)
    bank.close()


# Names


def test_a_table_can_be_named_with_its_schema(bank: Bank) -> None:
    fenced_update(bank.db, f"{bank.schema}.accounts", key={"id": 1}, values={"balance": 110}, token=5)
    assert bank.row() == (110, 5)


def test_sql_keywords_and_non_ascii_words_are_valid_names(bank: Bank) -> None:
    bank.db.execute('CREATE TABLE "Order" ("group" INTEGER, "Größe" TEXT, "select" TEXT, "2nd" BIGINT)')
    bank.db.execute("""INSERT INTO "Order" VALUES (1, 'x', 'a', NULL), (1, 'y', 'b', NULL)""")
    fenced_update(
        bank.db, "Order", key={"group": 1, "Größe": "x"}, values={"select": "it's; -- %s ? :p1"}, token=5, fence="2nd"
    )
    found = bank.db.execute('SELECT "select", "2nd" FROM "Order" ORDER BY "Größe"').fetchall()
    assert found == [("it's; -- %s ? :p1", 5), ("b", None)]


def test_a_misspelt_key_is_an_error_and_never_matches_every_row(bank: Bank) -> None:
    # SQLite alone would read "idd" as the text 'idd', which equals itself in every row.
    with pytest.raises((sqlite3.Error, apsw.Error, psycopg.Error), match="idd"):
        fenced_update(bank.db, "accounts", key={"idd": "idd"}, values={"balance": 0}, token=5)
    assert bank.row() == (100, None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.sampled_from(["table", "key", "value", "fence"]), st.text("a_\"'();,=-*. %?:$\\1", min_size=1, max_size=12))
def test_no_name_reaches_other_rows(bank: Bank, place: str, name: str) -> None:
    names = {"table": "accounts", "key": "id", "value": "balance", "fence": "fence", place: name}
    with pytest.raises((InvalidInput, sqlite3.Error, apsw.Error, psycopg.Error)):
        fenced_update(
            bank.db, names["table"], key={names["key"]: 1}, values={names["value"]: 0}, token=5, fence=names["fence"]
        )
    assert [bank.row(1), bank.row(2)] == [(100, None), (200, None)]


# Transactions


def test_a_write_is_part_of_the_callers_transaction(bank: Bank) -> None:
    bank.db.execute("BEGIN")
    write(bank.db, 110, token=5)
    bank.db.execute("ROLLBACK")
    assert bank.row() == (100, None)
    bank.db.execute("BEGIN")
    write(bank.db, 120, token=4)
    bank.db.execute("COMMIT")
    assert bank.row() == (120, 4)


def test_a_refusal_leaves_the_transaction_usable(bank: Bank) -> None:
    bank.db.execute("UPDATE accounts SET fence = 6 WHERE id = 1")
    bank.db.execute("BEGIN")
    with pytest.raises(StaleToken):
        write(bank.db, 90, token=5)
    bank.db.execute("UPDATE accounts SET balance = 210 WHERE id = 2")
    bank.db.execute("COMMIT")
    assert [bank.row(1), bank.row(2)] == [(100, 6), (210, None)]


def wait_until_blocked(pg: Bank, db: Any) -> None:
    """Return when the server reports `db` as waiting for a lock."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    query = f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {db.info.backend_pid}"
    while pg.db.execute(query).fetchone() != ("Lock",):
        assert time.monotonic() < deadline
        time.sleep(0.001)


@contextmanager
def overtaken(pg: Bank, late: Any) -> Iterator["Future[None]"]:
    """A write of token 5 on `late` waits for the row until token 6 commits its write."""
    newer = pg.connect()
    newer.execute("BEGIN")
    write(newer, 120, token=6)
    with ThreadPoolExecutor(1) as pool:
        late_write = pool.submit(write, late, 90, token=5)
        wait_until_blocked(pg, late)
        newer.execute("COMMIT")
        yield late_write


def test_postgresql_rechecks_the_fence_after_waiting_for_a_newer_claim(pg: Bank) -> None:
    with overtaken(pg, pg.connect()) as late_write, pytest.raises(StaleToken):
        late_write.result(timeout=PATIENCE_SECONDS)
    assert pg.row() == (120, 6)


def test_postgresql_fails_a_snapshot_that_was_overtaken(pg: Bank) -> None:
    late = pg.connect()
    late.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    late.execute("SELECT balance FROM accounts")
    with overtaken(pg, late) as late_write, pytest.raises(psycopg.errors.SerializationFailure):
        late_write.result(timeout=PATIENCE_SECONDS)
    assert pg.row() == (120, 6)


# Lost updates, without the fence and with it


class Desk(NamedTuple):
    """A way to write a balance computed from the previous one."""

    begin: Callable[[Any, int], None]
    write: Callable[[Any, int, int], None]


def write_unfenced(db: Any, balance: int, _token: int) -> None:
    db.execute(f"UPDATE accounts SET balance = {balance} WHERE id = 1")


def show_nothing(_db: Any, _token: int) -> None:
    pass


def show_token(db: Any, token: int) -> None:
    fenced_update(db, "accounts", key={"id": 1}, token=token)


UNFENCED = Desk(begin=show_nothing, write=write_unfenced)
FENCED = Desk(begin=show_token, write=write)


def read(db: Any) -> int:
    ((balance,),) = db.execute("SELECT balance FROM accounts WHERE id = 1").fetchall()
    assert isinstance(balance, int)
    return balance


def open_store(backend: Callable[[], Backend], clock: Clock) -> OctoStore:
    return OctoStore(EmbeddedPort(LocalStore(backend, clock=clock)))


def claim(store: OctoStore, owner: str) -> int:
    reply: ClaimReply = store.claim_job("account-1", owner=owner, ttl=TTL_SECONDS)
    assert reply.status == "claimed"
    assert reply.fencing_token is not None
    return reply.fencing_token


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Backend]:
    return MemoryBackend if request.param == "memory" else lambda: SqliteBackend(tmp_path / "octostore.db")


def pause_past_the_lease(bank: Bank, backend: Callable[[], Backend], desk: Desk) -> None:
    """The first adds 1 and is paused before it writes; the second adds 10; the first wakes up and writes."""
    clock = ManualClock()
    with open_store(backend, clock) as store:
        first, second = bank.connect(), bank.connect()

        first_token = claim(store, "first")
        desk.begin(first, first_token)
        first_balance = read(first) + 1

        clock.advance(TTL_SECONDS + 1)
        second_token = claim(store, "second")
        desk.begin(second, second_token)
        desk.write(second, read(second) + 10, second_token)
        assert bank.row()[0] == 110

        desk.write(first, first_balance, first_token)


def test_without_a_fence_the_paused_worker_undoes_its_successors_write(
    bank: Bank, backend: Callable[[], Backend]
) -> None:
    pause_past_the_lease(bank, backend, UNFENCED)
    assert bank.row()[0] == 101  # the 10 are lost


def test_with_the_fence_the_paused_worker_is_refused(bank: Bank, backend: Callable[[], Backend]) -> None:
    with pytest.raises(StaleToken) as refused:
        pause_past_the_lease(bank, backend, FENCED)
    assert bank.row() == (110, refused.value.current)
    assert refused.value.token < refused.value.current


def wake_between_read_and_write(bank: Bank, desk: Desk) -> list[str]:
    """The first wakes up when its successor has read, but not yet written. Returns whose writes were accepted."""
    clock, accepted = ManualClock(), []
    with open_store(MemoryBackend, clock) as store:
        first_token = claim(store, "first")
        first_balance = read(bank.db) + 1
        clock.advance(TTL_SECONDS + 1)
        second_token = claim(store, "second")
        desk.begin(bank.db, second_token)
        second_balance = read(bank.db) + 10
        for owner, balance, token in (("first", first_balance, first_token), ("second", second_balance, second_token)):
            try:
                desk.write(bank.db, balance, token)
                accepted.append(owner)
            except StaleToken:
                continue
    return accepted


def test_a_successor_that_reads_before_it_shows_its_token_can_undo_a_late_write(bank: Bank) -> None:
    assert wake_between_read_and_write(bank, Desk(begin=show_nothing, write=write)) == ["first", "second"]
    assert bank.row()[0] == 110  # the 1 was accepted, and is lost


def test_a_successor_that_shows_its_token_first_undoes_nothing(bank: Bank) -> None:
    assert wake_between_read_and_write(bank, FENCED) == ["second"]
    assert bank.row()[0] == 110


def add_one(db: Any, token: int, desk: Desk, wait: Callable[[], object]) -> bool:
    """Add 1 to the balance: read, `wait`, write. Return whether the write was accepted."""
    is_fresh = True
    try:
        desk.begin(db, token)
    except StaleToken:
        is_fresh = False
    balance = read(db)
    wait()
    if not is_fresh:
        return False
    try:
        desk.write(db, balance + 1, token)
    except StaleToken:
        return False
    return True


def test_threads_that_take_over_from_each_other_lose_nothing(bank: Bank) -> None:
    clock, turn, start = ManualClock(), threading.Lock(), threading.Barrier(4)

    def take_over(store: OctoStore) -> int:
        with turn:
            clock.advance(TTL_SECONDS + 1)
            return claim(store, "any")

    def work(store: OctoStore) -> int:
        db = bank.connect()
        start.wait(PATIENCE_SECONDS)
        return sum(add_one(db, take_over(store), FENCED, lambda: None) for _ in range(25))

    with open_store(MemoryBackend, clock) as store, ThreadPoolExecutor(4) as pool:
        accepted = sum(pool.map(work, [store] * 4))
    assert accepted >= 1  # the newest claim is never refused
    assert bank.row()[0] == 100 + accepted


# Separate processes; each gets the shared objects when it starts.

WORKERS = 3
_shared: dict[str, Any] = {}


def share(clock: Any, turn: Any, barrier: Any) -> None:
    _shared.update(clock=clock, turn=turn, barrier=barrier)


def work_in_process(folder: Path, desk: Desk) -> bool:
    clock, barrier = _shared["clock"], _shared["barrier"]
    with (
        open_store(
            lambda: SqliteBackend(folder / "octostore.db"), lambda last: Mark(max(clock.value, last.now), "shared", 0)
        ) as store,
        _shared["turn"],
    ):
        clock.value += (TTL_SECONDS + 1) * 1_000
        token = claim(store, f"process-{clock.value}")
    db = open_sqlite3(folder / "bank.db")
    barrier.wait(PATIENCE_SECONDS)  # each has claimed, and all but one have lost the claim without knowing
    try:
        return add_one(db, token, desk, lambda: barrier.wait(PATIENCE_SECONDS))
    finally:
        db.close()


def race_processes(folder: Path, desk: Desk) -> tuple[int, int]:
    """All read before any of them writes. Return the number of accepted additions, and the growth of the balance."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # importing it takes longer than the test itself
    bank = Bank(lambda: open_sqlite3(folder / "bank.db"))
    shared = (context.Value("q", START_MS), context.Lock(), context.Barrier(WORKERS))
    with ProcessPoolExecutor(WORKERS, mp_context=context, initializer=share, initargs=shared) as pool:
        accepted = sum(pool.map(work_in_process, [folder] * WORKERS, [desk] * WORKERS))
    grown = bank.row()[0] - 100
    bank.close()
    return accepted, grown


def test_processes_without_a_fence_lose_all_updates_but_one(tmp_path: Path) -> None:
    assert race_processes(tmp_path, UNFENCED) == (WORKERS, 1)


def test_processes_with_the_fence_lose_none(tmp_path: Path) -> None:
    assert race_processes(tmp_path, FENCED) == (1, 1)
