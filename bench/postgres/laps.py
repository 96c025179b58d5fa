"""The jobs of one round, and what it took to enqueue and complete them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import msgspec
import psycopg

from bench.served.processes import Usage

AT_ONCE = 256
"""Jobs enqueued in one call, or by concurrent callers."""


class Jobs(msgspec.Struct):
    who: str
    url: str
    schema: str
    store_url: str
    count: int
    workers: int

    def payloads(self) -> list[list[dict[str, int]]]:
        """All payloads, in groups that are enqueued at once."""
        numbers = range(self.count)
        return [[{"number": number} for number in numbers[start : start + AT_ONCE]] for start in numbers[::AT_ONCE]]


class Lap(msgspec.Struct):
    seconds: float
    cpu: float
    """CPU seconds of this process, on all cores."""
    database_cpu: float
    """The same for all database processes."""
    commits: int
    """Transactions that wrote something, by anyone."""
    wal_bytes: int


class Laps(msgspec.Struct):
    enqueue: Lap
    work: Lap


class Moment(NamedTuple):
    xid: int
    wal: int
    cpu: float


class Stopwatch:
    """Ask the database what it has written, over a separate connection and never while the clock runs."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._connection = psycopg.connect(jobs.url, autocommit=True, options=f"-csearch_path={jobs.schema}")
        self._begun_at = 0.0
        self.laps: list[Lap] = []
        self.handled = 0

    @contextmanager
    def lap(self) -> Iterator[None]:
        before = self._now()
        cpu = process_time()
        self._begun_at = perf_counter()
        yield
        seconds, cpu = perf_counter() - self._begun_at, process_time() - cpu
        after = self._now()
        written = after.xid - before.xid, after.wal - before.wal
        self.laps.append(Lap(seconds, cpu, after.cpu - before.cpu, *written))

    def handle(self) -> bool:
        """All that a handler does. Return whether this was the last job.

        The first job restarts the clock, to leave out the library's startup.
        """
        if not self.handled:
            self._begun_at = perf_counter()
        self.handled += 1
        return self.handled == self._jobs.count

    def result(self, done: str) -> Laps:
        """`done` counts the completed jobs: unless that is all of them, the time means nothing."""
        row = self._connection.execute(done.encode()).fetchone()
        if row is None or row[0] != self._jobs.count or self.handled != self._jobs.count:
            raise RuntimeError(f"of {self._jobs.count} jobs, {self.handled} were handled and {row} are done")
        self._connection.close()
        enqueue, work = self.laps
        return Laps(enqueue, work)

    def _now(self) -> Moment:
        query = """
            SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_current_wal_lsn() - '0/0',
                   current_setting('data_directory')
        """
        row = self._connection.execute(query).fetchone()
        if row is None:
            raise LookupError("the database returned no position")
        first_process = int(Path(row[2], "postmaster.pid").read_text().split()[0])
        return Moment(int(row[0]), int(row[1]), Usage(first_process).family_cpu_seconds())
