"""What a claim costs on a PostgreSQL store with many jobs."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any

import psycopg
from psycopg import sql

from bench.growth import Opened, first_claims, report_claims
from bench.postgres.database import Database
from bench.sample_rows import SampleRows
from bench.timing import only_new_garbage
from octostore.stores.rows import COLUMNS, Row, job_to_row
from octostore.stores.store import open_store


def report(database: Database, jobs: int, samples: int) -> None:
    with ExitStack() as stack:
        nothing = stack.enter_context(_at_work(database, 0))
        much = stack.enter_context(_at_work(database, jobs))
        stack.enter_context(only_new_garbage())
        report_claims("PostgreSQL", nothing, much, samples)


@contextmanager
def _at_work(database: Database, jobs: int) -> Iterator[Opened]:
    with database.schema() as schema:
        store = open_store(database.store_url(schema))
        try:
            store.create()
            if jobs:
                _fill(database, schema, SampleRows(jobs, jobs))
            at_work = Opened(store, jobs)
            first_claims(at_work)
            yield at_work
        finally:
            store.close()


def _fill(database: Database, schema: str, rows: SampleRows) -> None:
    """Without claimed jobs: by the database's clock, all their leases would have expired."""
    started = perf_counter()
    with psycopg.connect(database.url, options=f"-csearch_path={schema}") as connection:
        unclaimed = (job for job in rows.jobs() if job.claim is None)
        copied = _copy(connection, "jobs", COLUMNS["job"], map(job_to_row, unclaimed))
        connection.execute("UPDATE counters SET seq = %s", [copied])
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(sql.SQL("VACUUM ANALYZE {}.jobs").format(sql.Identifier(schema)))
        connection.execute("CHECKPOINT")
    print(f"Built {copied:,} jobs in {perf_counter() - started:.1f} s")


def _copy(connection: psycopg.Connection[Any], table: str, columns: Sequence[str], rows: Iterator[Row]) -> int:
    names = sql.SQL(", ").join(sql.Identifier(name) for name in columns)
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
        return cursor.rowcount
