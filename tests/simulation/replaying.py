"""Compare the replayed log with the stored rows."""

from collections.abc import Iterator
from typing import Any

from octostore.core.events import LogEntry
from octostore.core.questions import ListEvents
from octostore.stores.rows import job_from_row, session_from_row
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.sqlite.connection import connect
from octostore.stores.sqlite.database import SQL
from tests.simulation.storage import Storage
from tests.support.replay import logged_job, logged_session, replay


def differences(storage: Storage, log: list[LogEntry]) -> Iterator[str]:
    """Where the store differs from the log that was seen to be committed."""
    jobs, sessions, stored_log = _rows(storage)
    if stored_log != log:
        yield f"the stored log has {len(stored_log)} events, but {len(log)} were committed"
    replayed = replay(log)
    expected_jobs = {job.job_id: logged_job(job) for job in replayed.jobs.values() if job is not None}
    yield from _compare("job", {job.job_id: logged_job(job) for job in jobs}, expected_jobs)
    expected_sessions = {str(s.session_id): logged_session(s) for s in replayed.sessions.values() if s is not None}
    yield from _compare("session", {s.session_id: logged_session(s) for s in sessions}, expected_sessions)


def _compare(kind: str, stored: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
    for name in sorted(stored.keys() | expected.keys()):
        if stored.get(name) != expected.get(name):
            yield f"{kind} {name} is stored as {stored.get(name)}, but its events lead to {expected.get(name)}"


def _rows(storage: Storage) -> tuple[list[Any], list[Any], list[LogEntry]]:
    if storage.path is None:
        rows = storage.rows
        return list(rows.jobs.values()), list(rows.sessions.values()), rows.log
    connection = connect(storage.path)
    try:
        jobs = [job_from_row(row) for row in connection.execute(f"SELECT {SQL['job_columns']} FROM jobs")]
        sessions = [
            session_from_row(row) for row in connection.execute(f"SELECT {SQL['session_columns']} FROM sessions")
        ]
    finally:
        connection.close()
    return jobs, sessions, _stored_log(storage)


def _stored_log(storage: Storage) -> list[LogEntry]:
    assert storage.path is not None
    backend = SqliteBackend(storage.path)
    log: list[LogEntry] = []
    try:
        with backend.reading() as reading:
            last = reading.counters().seq
            after = 0
            while after < last:
                entries, after = reading.list_events(ListEvents(after=after, limit=1_000))
                log += entries
    finally:
        backend.close()
    return log
