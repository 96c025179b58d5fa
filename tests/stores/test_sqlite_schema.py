"""The file itself: how it comes to be, and what it refuses whoever writes to it."""

import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

import octostore
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.sqlite.connection import APPLICATION_ID, migrations
from tests.support.processes import Worker
from tests.support.soundness import assert_sound

OPENERS = 8
NOWHERE = -1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "octostore.db"


# The log is append-only, for everybody


@pytest.fixture
def raw(path: Path) -> Iterator[apsw.Connection]:
    """What anybody with a copy of SQLite can do to a store: here, one with three events, two of them with documents."""
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
def test_the_log_refuses_every_change_of_what_was_written(raw: apsw.Connection, statement: str) -> None:
    before = everything(raw)
    assert len(before) == 5
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        raw.execute(statement)
    assert everything(raw) == before


def test_the_log_takes_what_comes_next(raw: apsw.Connection) -> None:
    raw.execute(f"INSERT INTO events {EVENT} (4, 0, 'claimed', 'somebody', x'00')")
    raw.execute("INSERT INTO documents (seq, body) VALUES (4, x'00')")
    assert len(everything(raw)) == 7


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs SET lease_id = 'stolen'",
        "UPDATE jobs SET status = 'claimed'",
        "UPDATE jobs SET status = 'lost'",
        "INSERT INTO counters VALUES (2, 0, 0, '', 0)",
    ],
)
def test_rows_that_contradict_themselves_are_refused(raw: apsw.Connection, statement: str) -> None:
    with pytest.raises(apsw.ConstraintError):
        raw.execute(statement)


# How the file comes to be


@pytest.mark.parametrize("mask", ["000", "022", "077"])
def test_nobody_else_may_read_the_file(path: Path, mask: str) -> None:
    with Worker("puppet", path, under=("sh", "-c", f'umask {mask}; exec "$@"', "sh")) as worker:
        assert worker.hear() == "ready"
        worker.ask("claim_job", job_id="job")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"octostore.db": 0o600, "octostore.db-wal": 0o600, "octostore.db-shm": 0o600}


def test_a_new_file_says_whose_it_is_and_how_it_is_kept(path: Path) -> None:
    backend = SqliteBackend(path)
    writer = backend._writer
    assert writer.pragma("application_id") == APPLICATION_ID
    assert writer.pragma("user_version") == len(migrations())
    assert writer.pragma("journal_mode") == "wal"
    assert writer.pragma("synchronous") == 2  # FULL
    backend.close()


def schema_version(path: Path) -> int:
    """SQLite counts every change of the schema."""
    connection = apsw.Connection(str(path))
    version: int = connection.pragma("schema_version")
    connection.close()
    return version


def test_eight_processes_open_a_new_file_at_once_and_one_of_them_makes_it(tmp_path: Path, path: Path) -> None:
    alone = tmp_path / "alone.db"
    SqliteBackend(alone).close()
    with ExitStack() as stack:
        openers = [stack.enter_context(Worker("opener", path, 0)) for _ in range(OPENERS)]
        for opener in openers:
            assert "before" in opener.hear()
        for opener in openers:
            opener.tell("go")
        answers = [opener.hear() for opener in openers]
    assert [answer.get("fault") for answer in answers] == [None] * OPENERS
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
                answer = slow.hear()
                assert quick.claim_job("other").status == "claimed"
        if "opened" not in answer:
            faults[before] = answer["fault"]
        assert schema_version(path) == schema_version(tmp_path / "alone.db")
        assert len(assert_sound(path)) == 2
    assert faults == {}


@pytest.mark.parametrize("lock", ["BEGIN; SELECT count(*) FROM sqlite_schema", "BEGIN IMMEDIATE"])
def test_a_first_open_waits_for_whoever_is_at_the_new_file(path: Path, lock: str) -> None:
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


def test_an_open_that_was_killed_at_any_point_is_made_good_by_the_next(tmp_path: Path) -> None:
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
