"""What must hold of a store's file at any moment, whoever was killed while writing to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from octostore.core.events import LogEntry
from octostore.core.model import Job, Session, Token
from octostore.core.replay import logged_job, logged_session, logged_token, replay
from octostore.stores.rows import entry_from_row, job_from_row, session_from_row, token_from_row
from octostore.stores.sqlite.transaction import SQL, Transaction


@contextmanager
def only_looking(path: Path) -> Iterator[apsw.Connection]:
    """A connection, in one consistent state, that leaves the file and its log as a crash left them."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(10_000)
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()


def assert_sound(path: Path) -> list[LogEntry]:
    """The file is intact, the log has no gap, and replaying it gives the stored rows. Returns the log."""
    with only_looking(path) as connection:
        assert connection.pragma("integrity_check") == "ok"
        log = read_log(connection)
        jobs, sessions, tokens = read_jobs(connection), read_sessions(connection), read_tokens(connection)
        counters = Transaction(connection).counters()
        documents = {row[0] for row in connection.execute("SELECT seq FROM documents")}
    replayed = replay(log)
    assert replayed.seq == counters.seq
    assert [entry.at for entry in log] == sorted(entry.at for entry in log)
    assert replayed.now <= counters.mark.now
    assert {name: logged_job(job) for name, job in jobs.items()} == {
        name: logged_job(job) for name, job in replayed.jobs.items() if job is not None
    }
    assert {name: logged_session(session) for name, session in sessions.items()} == {
        name: logged_session(session) for name, session in replayed.sessions.items() if session is not None
    }
    assert {token_id: logged_token(token) for token_id, token in tokens.items()} == {
        token_id: logged_token(token) for token_id, token in replayed.tokens.items() if token is not None
    }
    named = [(job.payload_seq, job.result_seq) for job in jobs.values()]
    assert {seq for pair in named for seq in pair if seq is not None} <= documents
    return log


def read_log(connection: apsw.Connection, after: int = 0) -> list[LogEntry]:
    return [entry_from_row(row) for row in connection.execute(SQL["list_events"], (after, -1))]


def read_jobs(connection: apsw.Connection) -> dict[str, Job]:
    rows = connection.execute(f"SELECT {SQL['job_columns']} FROM jobs").fetchall()
    return {job.job_id: job for job in map(job_from_row, rows)}


def read_sessions(connection: apsw.Connection) -> dict[str, Session]:
    rows = connection.execute(f"SELECT {SQL['session_columns']} FROM sessions").fetchall()
    return {session.session_id: session for session in map(session_from_row, rows)}


def read_tokens(connection: apsw.Connection) -> dict[str, Token]:
    rows = connection.execute(f"SELECT {SQL['token_columns']} FROM tokens").fetchall()
    return {token.token_id: token for token in map(token_from_row, rows)}
