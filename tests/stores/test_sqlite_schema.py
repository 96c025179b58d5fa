"""The file itself: how it is created, and what it refuses from any writer."""

import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import apsw
import pytest

import octostore
from octostore.core.commands import AcquireLock, ClaimJob, HeartbeatJob, ReleaseJob
from octostore.core.errors import LimitExceeded
from octostore.core.questions import GetFigures, GetJob, GetStoreKey, ListTokens
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.sqlite.connection import APPLICATION_ID, make, migrations
from octostore.stores.sqlite.database import SQL, compiled
from tests.support.embedded import backend_of, writer_of
from tests.support.processes import Worker
from tests.support.soundness import assert_sound
from tests.support.world import World

OPENERS = 8
NOWHERE = -1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "octostore.db"


# The log is append-only


@pytest.fixture
def raw(path: Path) -> Iterator[apsw.Connection]:
    """A plain SQLite connection to a store with three events, two of them with documents."""
    with octostore.connect(f"sqlite:///{path}") as store:
        store.enqueue("task", {"number": 1}, job_id="job")
        reply = store.claim_job("job")
        assert reply.lease_id is not None
        store.release_job("job", reply.lease_id, "done", result={"number": 2})
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


def everything(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return [
        *connection.execute("SELECT * FROM events ORDER BY seq").fetchall(),
        *connection.execute("SELECT * FROM documents ORDER BY seq").fetchall(),
    ]


EVENT = "(seq, at, type, actor, details) VALUES"
FORBIDDEN = [
    "UPDATE events SET actor = 'nobody'",
    "UPDATE events SET actor = 'nobody' WHERE seq = 3",
    "UPDATE OR IGNORE events SET seq = 9 WHERE seq = 3",
    "UPDATE OR REPLACE events SET seq = 1 WHERE seq = 3",
    "UPDATE documents SET body = x'00' WHERE seq = 1",
    "DELETE FROM events",
    "DELETE FROM events WHERE seq = 3",
    "DELETE FROM documents",
    "DELETE FROM documents WHERE seq = 3",
    f"INSERT OR REPLACE INTO events {EVENT} (3, 0, 'claimed', 'nobody', x'00')",
    f"INSERT OR REPLACE INTO events {EVENT} (1, 0, 'claimed', 'nobody', x'00')",
    f"REPLACE INTO events {EVENT} (2, 0, 'claimed', 'nobody', x'00')",
    f"INSERT INTO events {EVENT} (0, 0, 'claimed', 'nobody', x'00')",
    f"INSERT INTO events {EVENT} (3, 0, 'a', 'b', x'00') ON CONFLICT (seq) DO UPDATE SET actor = 'nobody'",
    "INSERT OR REPLACE INTO documents (seq, body) VALUES (3, x'00')",
    "REPLACE INTO documents (seq, body) VALUES (1, x'00')",
    "INSERT INTO documents (seq, body) VALUES (2, x'00')",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_log_refuses_every_change_to_existing_events(raw: apsw.Connection, statement: str) -> None:
    before = everything(raw)
    assert len(before) == 5
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        raw.execute(statement)
    assert everything(raw) == before


def test_the_log_accepts_new_events(raw: apsw.Connection) -> None:
    raw.execute(f"INSERT INTO events {EVENT} (4, 0, 'claimed', 'somebody', x'00')")
    raw.execute("INSERT INTO documents (seq, body) VALUES (4, x'00')")
    assert len(everything(raw)) == 7


def test_our_own_statements_only_append_to_the_log(raw: apsw.Connection) -> None:
    """Our connection runs without the triggers that refuse anything else to other programs."""
    changes = {apsw.SQLITE_INSERT: "INSERT", apsw.SQLITE_UPDATE: "UPDATE", apsw.SQLITE_DELETE: "DELETE"}
    found: set[tuple[str, str]] = set()

    def note(action: int, table: str | None, *_: str | None) -> int:
        if action in changes and table in {"events", "documents"}:
            found.add((changes[action], SQL[name]))
        return apsw.SQLITE_OK

    raw.authorizer = note
    for name in SQL:
        with suppress(apsw.BindingsError, apsw.SQLError):  # compiled is enough; fragments are compiled with the others
            raw.execute(f"EXPLAIN {compiled(name)}", can_cache=False)
    assert {(kind, text.split("main.")[0]) for kind, text in found} == {("INSERT", "INSERT INTO ")}
    assert {text for _, text in found} == {SQL["append_events"], SQL["append_documents"]}
    assert not any("CONFLICT" in text for _, text in found)


def test_the_store_itself_cannot_write_a_seq_twice(path: Path) -> None:
    with octostore.connect(f"sqlite:///{path}") as store:
        store.claim_job("job")
        writer = writer_of(backend_of(store))
        (row,) = writer.execute("SELECT * FROM events").fetchall()
        with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
            writer.execute(compiled("append_events"), row)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs SET lease_id = 'stolen'",
        "UPDATE jobs SET status = 'claimed'",
        "UPDATE jobs SET status = 'lost'",
        "INSERT INTO counters VALUES (2, 0, 0, '', 0, '', 0)",
    ],
)
def test_rows_that_contradict_themselves_are_refused(raw: apsw.Connection, statement: str) -> None:
    with pytest.raises(apsw.ConstraintError):
        raw.execute(statement)


# How the file is created


@pytest.mark.parametrize("mask", ["000", "022", "077"])
def test_no_other_user_may_read_the_file(path: Path, mask: str) -> None:
    with Worker("puppet", path, under=("sh", "-c", f'umask {mask}; exec "$@"', "sh")) as worker:
        assert worker.hear() == "ready"
        worker.ask("claim_job", job_id="job")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"octostore.db": 0o600, "octostore.db-wal": 0o600, "octostore.db-shm": 0o600}


WATCHED = """
import os, sys
from octostore.stores.sqlite.connection import make
os.umask(0)
look = lambda event, args: print(f"{os.stat(args[0]).st_mode:o}") if event == "os.chmod" else None
sys.addaudithook(look)
make(sys.argv[1])
"""


def test_no_other_user_may_read_the_file_from_its_first_moment(path: Path) -> None:
    """A user who opened it then could read it for ever."""
    made = subprocess.run([sys.executable, "-c", WATCHED, path], check=True, capture_output=True, text=True)
    assert made.stdout == "100600\n"


def test_a_new_file_has_its_application_id_and_settings(path: Path) -> None:
    make(str(path))
    backend = SqliteBackend(path)
    writer = writer_of(backend)
    assert writer.pragma("application_id") == APPLICATION_ID
    assert writer.pragma("user_version") == len(migrations())
    assert writer.pragma("journal_mode") == "wal"
    assert writer.pragma("synchronous") == 2  # FULL
    backend.close()


def schema_version(path: Path) -> int:
    """SQLite's count of schema changes."""
    connection = apsw.Connection(str(path))
    version: int = connection.pragma("schema_version")
    connection.close()
    return version


def test_of_eight_processes_that_open_a_new_file_one_creates_it(tmp_path: Path, path: Path) -> None:
    alone = tmp_path / "alone.db"
    make(str(alone))
    with ExitStack() as stack:
        openers = [stack.enter_context(Worker("opener", path, 0)) for _ in range(OPENERS)]
        for opener in openers:
            assert "before" in opener.hear()
        for opener in openers:
            opener.tell("go")
        replies = [opener.hear() for opener in openers]
    assert [reply.get("fault") for reply in replies] == [None] * OPENERS
    assert schema_version(path) == schema_version(alone)
    assert assert_sound(path) == []


def statements_before_the_lock(path: Path) -> int:
    with Worker("opener", path, NOWHERE) as opener:
        statements = opener.hear()["opened"]
    return int(statements.index("BEGIN IMMEDIATE")) + 1


def test_a_first_open_may_be_overtaken_by_another_at_any_point(tmp_path: Path) -> None:
    faults = {}
    for number in range(statements_before_the_lock(tmp_path / "alone.db")):
        path = tmp_path / f"{number}.db"
        with Worker("opener", path, number) as slow:
            before = slow.hear()["before"]
            with octostore.connect(f"sqlite:///{path}") as quick:
                assert quick.claim_job("job").status == "claimed"
                slow.tell("go")
                reply = slow.hear()
                assert quick.claim_job("other").status == "claimed"
        if "opened" not in reply:
            faults[before] = reply["fault"]
        assert schema_version(path) == schema_version(tmp_path / "alone.db")
        assert len(assert_sound(path)) == 2
    assert faults == {}


@pytest.mark.parametrize("lock", ["BEGIN; SELECT count(*) FROM sqlite_schema", "BEGIN IMMEDIATE"])
def test_a_first_open_waits_for_another_process_at_the_new_file(path: Path, lock: str) -> None:
    path.touch()
    other = apsw.Connection(str(path))
    with Worker("opener", path, 0) as opener:
        assert "before" in opener.hear()
        other.execute(lock)
        opener.tell("go")
        with pytest.raises(TimeoutError):
            opener.hear(0.3)
        other.execute("ROLLBACK")
        other.close()
        assert "opened" in opener.hear()


def test_an_open_that_was_killed_at_any_point_is_completed_by_the_next(tmp_path: Path) -> None:
    alone = tmp_path / "alone.db"
    with Worker("opener", alone, NOWHERE) as opener:
        statements = opener.hear()["opened"]
    for number in range(0, len(statements), 4):
        path = tmp_path / f"{number}.db"
        with Worker("opener", path, number) as opener:
            assert "before" in opener.hear()
            opener.kill()
        with octostore.connect(f"sqlite:///{path}") as store:
            assert store.claim_job("job").status == "claimed"
        assert schema_version(path) == schema_version(alone)
        assert len(assert_sound(path)) == 1


# How an older file is migrated


@pytest.fixture
def old(path: Path) -> Path:
    """A file with the first version of the schema: one job is claimed, one is free."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute(migrations()[0])
    connection.execute((Path(__file__).parent / "version_1.sql").read_text(encoding="utf-8"))
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()
    return path


@pytest.fixture
def migrated(old: Path) -> Iterator[World]:
    world = World(SqliteBackend(old))
    world.advance(10)
    yield world
    world.backend.close()


def columns(connection: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]


def test_an_older_file_keeps_everything(old: Path) -> None:
    connection = apsw.Connection(str(old))
    tables = [str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    queries = [f"SELECT {', '.join(columns(connection, table))} FROM {table} ORDER BY 1" for table in tables]
    before = [connection.execute(query).fetchall() for query in queries]
    SqliteBackend(old).close()
    assert [connection.execute(query).fetchall() for query in queries] == before
    assert connection.pragma("user_version") == len(migrations())
    connection.close()
    assert len(assert_sound(old)) == 4


def test_an_older_file_ends_up_with_the_schema_of_a_new_one(tmp_path: Path, old: Path) -> None:
    schemas = []
    make(str(tmp_path / "new.db"))
    for path in (old, tmp_path / "new.db"):
        SqliteBackend(path).close()
        connection = apsw.Connection(str(path))
        schemas.append(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 2").fetchall())
        connection.close()
    assert schemas[0] == schemas[1]


def test_jobs_of_an_older_file_look_as_they_did(migrated: World) -> None:
    held, free = (migrated.ask(GetJob(job_id=job_id)) for job_id in ("held", "free"))
    assert (held.status, held.owner, held.payload) == ("claimed", "ann", {"n": 1})
    assert held.claim is not None
    assert (held.claim.metadata, held.claim.fencing_token) == ({"pr": 7}, 2)
    assert (free.status, free.note, free.previous[0].owner) == ("free", "bye", "bob")
    assert migrated.ask(ListTokens()).tokens == []
    assert migrated.ask(GetFigures()).claimed == 1
    assert len(migrated.ask(GetStoreKey()).key) == 32


def test_a_claim_of_an_older_file_stays_valid(old: Path, migrated: World) -> None:
    assert migrated.do(ClaimJob(job_id="held", owner="bob")).status == "held"
    replayed = migrated.do(ClaimJob(job_id="held", owner="ann", request_id="r"))
    assert (replayed.lease_id, replayed.checkpoint) == ("lease-1", {"step": 3})
    assert migrated.do(HeartbeatJob(job_id="held", lease_id="lease-1", note="going on")).remaining_ms == 60_000
    released = migrated.do(ReleaseJob(job_id="held", lease_id="lease-1", outcome="done", result=b"1"))
    assert (released.status, released.fencing_token) == ("done", 2)
    again = migrated.do(ClaimJob(job_id="free", owner="ann"))
    assert (again.status, again.note) == ("claimed", "bye")
    assert (again.fencing_token or 0) > 3
    assert [entry.type for entry in assert_sound(old)][4:] == ["done", "claimed"]


def test_a_claim_of_an_older_file_expires(old: Path, migrated: World) -> None:
    migrated.advance(60)
    assert migrated.do(ClaimJob(job_id="held", owner="bob")).status == "claimed"
    assert [entry.type for entry in assert_sound(old)][4:] == ["expired", "claimed"]


def test_a_claim_of_an_older_file_counts_as_a_claim_and_not_as_a_lock(migrated: World) -> None:
    assert migrated.do(AcquireLock(job_id="held", owner="ann")).status == "held"
    with pytest.raises(LimitExceeded):
        migrated.do(ClaimJob(job_id="free", owner="ann", max_claims=1))
    assert migrated.do(AcquireLock(job_id="free", owner="ann", max_claims=1)).status == "claimed"
