"""What must always hold of a store in PostgreSQL, whichever server was killed while writing."""

from collections import Counter

import psycopg

from octostore.core.events import LogEntry
from octostore.stores.postgres.connection import DatabaseAddress, parse_address
from octostore.stores.postgres.statements import load_sql
from octostore.stores.rows import entry_from_row, job_from_row, session_from_row, token_from_row
from tests.support.soundness import Contents, check_sound, decoded


def read_contents(url: str, after: int = 0) -> Contents:
    place = parse_address(url)
    with psycopg.connect(place.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return _read_all(connection, place, after)


def _read_all(connection: psycopg.Connection, place: DatabaseAddress, after: int) -> Contents:
    sql = load_sql(place.schema)

    def read(columns: str, table: str, condition: str = "true") -> list[tuple[object, ...]]:
        return connection.execute(f"SELECT {columns} FROM {place.schema}.{table} WHERE {condition}".encode()).fetchall()

    ((seq, now),) = read("seq, now", "counters")
    since = f"seq > {after}"
    jobs = map(job_from_row, read(sql["job_columns"], "jobs"))
    sessions = map(session_from_row, read(sql["session_columns"], "sessions"))
    tokens = map(token_from_row, read(sql["token_columns"], "tokens"))
    return Contents(
        seq=int(str(seq)),
        now=int(str(now)),
        log=[entry_from_row(row) for row in read(sql["event_columns"], "events", f"{since} ORDER BY seq")],
        jobs={job.job_id: job for job in jobs},
        sessions={session.session_id: session for session in sessions},
        tokens={token.token_id: token for token in tokens},
        checkpoints=decoded(read("job_id, data", "checkpoints")),
        contexts=decoded(read("session_id, data", "contexts")),
        documents=decoded(read("seq, body", "documents", since)),
        queued=Counter({str(name): int(str(queued)) for name, queued in read("*", "principals", "queued <> 0")}),
    )


def assert_sound(url: str) -> list[LogEntry]:
    """Check that the log has no gap and that replaying it yields the stored rows. Return the log."""
    return check_sound(read_contents(url))
