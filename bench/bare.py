"""Bare apsw, running the store's statements without its rules.

The statements are recorded, not written here: the store runs the workload once, and every SQL statement it runs is
replayed with the same values on another fresh file, through the same kind of connection. So both sides read and write
the same rows in the same transactions, and the difference is the cost of the rules.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from bench.opening import opened
from bench.workload import PHASES, Workload
from octostore.stores.sqlite.connection import connect_writer, make


class Step(NamedTuple):
    """One statement, run with each of `rows` in turn."""

    sql: str
    rows: list[Any]
    is_read: bool


Transaction = list[Step]
Recording = dict[str, list[Transaction]]
"""Each phase has one transaction per batch."""


def record(path: Path, jobs: int, batch: int) -> Recording:
    workload = Workload(jobs, batch)
    recording: Recording = {phase: [] for phase in PHASES}
    with _tracing() as trace, opened(path) as store:
        store.create()
        for phase, transactions in recording.items():
            for commands in workload.batches(phase):
                trace.clear()
                workload.check(store.submit(commands).result())
                transactions.append(_steps(trace))
    return recording


@contextmanager
def opened_bare(path: Path) -> Iterator[apsw.Connection]:
    make(str(path))
    connection = connect_writer(str(path))
    try:
        yield connection
    finally:
        connection.close()


def replay(connection: apsw.Connection, transaction: Transaction) -> None:
    execute, executemany = connection.execute, connection.executemany
    for sql, rows, is_read in transaction:
        cursor = execute(sql, rows[0]) if len(rows) == 1 else executemany(sql, rows)
        if is_read:
            cursor.fetchall()


@contextmanager
def _tracing() -> Iterator[list[tuple[str, Any]]]:
    """Record the statements of connections opened in the block. Only the writer's is used here."""
    trace: list[tuple[str, Any]] = []

    def note(_cursor: apsw.Cursor, sql: str, bindings: Any) -> bool:
        trace.append((sql, bindings))
        return True

    def listen(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    apsw.connection_hooks.append(listen)
    try:
        yield trace
    finally:
        apsw.connection_hooks.remove(listen)


def _steps(trace: list[tuple[str, Any]]) -> Transaction:
    """Merge repetitions of a statement into one call, even if the store made many: bare must not mean clumsy."""
    return [
        Step(sql, [bindings for _, bindings in group], sql.startswith("SELECT"))
        for sql, group in groupby(trace, key=lambda line: line[0])
    ]
