"""Claims per second on PostgreSQL, compared with the least work that the same database could do for them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import psycopg

from bench.postgres.database import Database
from bench.tables import show
from bench.timing import only_new_garbage
from bench.workload import Workload
from octostore.core.commands import AnyCommand, ClaimJob
from octostore.stores.store import LocalStore, open_store

WARM_UP = 5
"""Batches on each side that are not counted: the first ones fill caches, and psycopg prepares repeated statements."""
BARE_TABLE = """
CREATE TABLE {schema}.bare (job_id text COLLATE "C" PRIMARY KEY, owner text, metadata bytea, expires_at bigint)
"""
BARE_INSERT = """
INSERT INTO {schema}.bare SELECT * FROM unnest(%b::text[], %b::text[], %b::bytea[], %b::bigint[])
"""


class Seconds(NamedTuple):
    """The time of the same claims on both sides, in one round."""

    store: float
    bare: float


def report(database: Database, claims: dict[int, int], rounds: int) -> None:
    rows = []
    for batch, jobs in claims.items():
        with only_new_garbage():
            measured = [_round(database, jobs, batch) for _ in range(rounds)]
        # Per round: the machine's pace may change between rounds.
        ratio = median(took.bare / took.store for took in measured)
        rates = [jobs / median(took.store for took in measured), jobs / median(took.bare for took in measured)]
        rows.append([str(batch), *(f"{rate:,.0f}" for rate in rates), f"{ratio:.2f}"])
    title = (
        f"PostgreSQL: claims of new names per second (medians of {rounds} rounds, alternating batch by batch)\n"
        "   store: submit(batch).result(), one writer; a job and an event per claim, with all their indexes\n"
        "   bare: plain psycopg, inserting as many rows with four columns and one index: arrays and unnest,\n"
        "   pipelined, one transaction per batch"
    )
    show(title, ["batch", "store/s", "bare/s", "store:bare"], rows)


def _round(database: Database, jobs: int, batch: int) -> Seconds:
    """On fresh tables. The sides alternate with every batch, so that both see the same load."""
    workload = Workload(jobs + WARM_UP * batch, batch)
    in_store = in_bare = 0.0
    with database.schema() as schema, _opened(database.store_url(schema)) as store, _bare(database, schema) as bare:
        for number, commands in enumerate(workload.batches("claim")):
            started = perf_counter()
            replies = store.submit(commands).result()
            between = perf_counter()
            bare(commands)
            ended = perf_counter()
            workload.check(replies)
            if number >= WARM_UP:
                in_store += between - started
                in_bare += ended - between
    return Seconds(in_store, in_bare)


@contextmanager
def _opened(url: str) -> Iterator[LocalStore]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


class _Bare:
    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._insert = BARE_INSERT.format(schema=schema).encode()

    def __call__(self, commands: Sequence[AnyCommand]) -> None:
        claims = [command for command in commands if isinstance(command, ClaimJob)]
        columns = [
            [claim.job_id for claim in claims],
            [claim.owner for claim in claims],
            [claim.metadata for claim in claims],
            [0] * len(claims),
        ]
        with self._connection.pipeline(), self._connection.transaction():
            self._connection.execute(self._insert, columns)


@contextmanager
def _bare(database: Database, schema: str) -> Iterator[_Bare]:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(BARE_TABLE.format(schema=schema).encode())
        yield _Bare(connection, schema)
