"""What must always hold of a store's file, even if a process was killed while writing to it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from octostore.core.events import LogEntry
from octostore.core.model import Job, Session, Token
from octostore.core.session_keys import SessionKey
from octostore.stores.rows import entry_from_row, job_from_row, session_from_row, token_from_row
from octostore.stores.sqlite.database import SQL, SqliteDatabase
from tests.support.replay import logged_job, logged_session, logged_token, replay


@contextmanager
def reading_only(path: Path) -> Iterator[apsw.Connection]:
    """A consistent read that leaves the file and its write-ahead log as a crash left them."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(10_000)
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()


class Contents(NamedTuple):
    """Everything in a store, read from the database; log and documents only after a given event."""

    seq: int
    now: int
    log: list[LogEntry]
    jobs: dict[str, Job]
    sessions: dict[SessionKey, Session]
    tokens: dict[str, Token]
    checkpoints: dict[str, Any]
    contexts: dict[str, Any]
    documents: dict[int, Any]
    queued: Counter[str]
    """Queued jobs of each principal that has any."""


def read_contents(path: Path, after: int = 0) -> Contents:
    with reading_only(path) as connection:
        ((seq, now, *_),) = SqliteDatabase(connection).query("counters").rows
        checkpoints = connection.execute("SELECT job_id, data FROM checkpoints").fetchall()
        contexts = connection.execute("SELECT session_id, data FROM contexts").fetchall()
        documents = connection.execute("SELECT seq, body FROM documents WHERE seq > ?", (after,)).fetchall()
        return Contents(
            seq=seq,
            now=now,
            log=read_log(connection, after),
            jobs=read_jobs(connection),
            sessions=read_sessions(connection),
            tokens=read_tokens(connection),
            checkpoints=decoded(checkpoints),
            contexts=decoded(contexts),
            documents=decoded(documents),
            queued=Counter(dict(connection.execute("SELECT principal, queued FROM principals WHERE queued <> 0"))),
        )


def assert_sound(path: Path) -> list[LogEntry]:
    """Check that the file is intact, the log has no gap, and replaying it yields the stored rows. Return the log."""
    with reading_only(path) as connection:
        assert connection.pragma("integrity_check") == "ok"
    return check_sound(read_contents(path))


def check_sound(found: Contents) -> list[LogEntry]:
    """The same for contents from any store, without the file."""
    replayed = replay(found.log)
    assert replayed.seq == found.seq
    assert [entry.at for entry in found.log] == sorted(entry.at for entry in found.log)
    assert replayed.now <= found.now
    assert {name: logged_job(job) for name, job in found.jobs.items()} == {
        name: logged_job(job) for name, job in replayed.jobs.items() if job is not None
    }
    assert {name: logged_session(session) for name, session in found.sessions.items()} == {
        name: logged_session(session) for name, session in replayed.sessions.items() if session is not None
    }
    assert {token_id: logged_token(token) for token_id, token in found.tokens.items()} == {
        token_id: logged_token(token) for token_id, token in replayed.tokens.items() if token is not None
    }
    assert found.queued == Counter({name: queued for name, queued in replayed.queued_changes.items() if queued})
    named = [(job.payload_seq, job.result_seq) for job in found.jobs.values()]
    assert {seq for pair in named for seq in pair if seq is not None} <= set(found.documents)
    assert {
        name for name, session in found.sessions.items() if session.context_seq is not None
    } == found.contexts.keys()
    return found.log


def read_log(connection: apsw.Connection, after: int = 0) -> list[LogEntry]:
    return [entry_from_row(row) for row in SqliteDatabase(connection).query("list_events", after=after, limit=-1).rows]


def read_jobs(connection: apsw.Connection) -> dict[str, Job]:
    rows = connection.execute(f"SELECT {SQL['job_columns']} FROM jobs").fetchall()
    return {job.job_id: job for job in map(job_from_row, rows)}


def read_sessions(connection: apsw.Connection) -> dict[SessionKey, Session]:
    rows = connection.execute(f"SELECT {SQL['session_columns']} FROM sessions").fetchall()
    return {session.session_id: session for session in map(session_from_row, rows)}


def read_tokens(connection: apsw.Connection) -> dict[str, Token]:
    rows = connection.execute(f"SELECT {SQL['token_columns']} FROM tokens").fetchall()
    return {token.token_id: token for token in map(token_from_row, rows)}


def decoded(rows: list[Any]) -> dict[Any, Any]:
    return {key: msgspec.json.decode(value) for key, value in rows}
