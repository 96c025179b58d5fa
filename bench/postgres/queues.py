"""Jobs enqueued, claimed and completed, compared with two other libraries on the same PostgreSQL."""

import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import NamedTuple

from msgspec.structs import astuple

from bench.postgres.database import Database
from bench.postgres.laps import AT_ONCE, Jobs, Lap, Laps
from bench.rounds import interleaved, ratio
from bench.served.peers import BEFORE
from bench.served.processes import in_own_process, python_of
from bench.tables import show

PATIENCE_SECONDS = 30.0
"""After this long, no further round starts with the same number of workers."""
TARGETS = {("procrastinate", 8): "3.00", ("procrastinate", 32): "8.00", ("pgqueuer", 32): "0.80"}


class Library(NamedTuple):
    title: str
    who: str
    """The module and function that run the jobs."""
    needs: Sequence[str]
    does: str
    """How it enqueues and works, for people; N is the number of workers."""
    executable: str = sys.executable


LIBRARIES = [
    Library(
        "OctoStore async",
        "octostore_jobs:in_tasks",
        [],
        f"""enqueue_many() of {AT_ONCE}, then work(concurrency=N): N tasks, each of which completes a job and claims
    the next in one command. Concurrent commands share a transaction of the store's one writer. Callers get their reply
    after the commit; each job has a lease, and one thread heartbeats for all. 1 connection; nobody listens or polls,
    because nobody waits for jobs to arrive.""",
    ),
    Library("OctoStore", "octostore_jobs:in_threads", [], "the same with threads."),
    Library(
        "procrastinate",
        "procrastinate_jobs:in_tasks",
        ["procrastinate"],
        f"""batch_defer_async() of {AT_ONCE}, then run_worker_async(concurrency=N): a loop fetches one job at a
    time; up to N tasks run them and complete each one separately. Claims and completions are durable before it
    continues; the worker heartbeats, but a dead worker's jobs wait for somebody to retry them. A pool of 4 connections
    (its default) and 1 that listens.""",
    ),
    Library(
        "pgqueuer",
        "pgqueuer_jobs:in_tasks",
        ["pgqueuer", "asyncpg"],
        f"""enqueue() of {AT_ONCE}, then run(batch_size=N, max_concurrent_tasks=2N, the least it accepts): one
    statement fetches N jobs, and one completes them once N have finished, or every 0.1 seconds. Until then they are
    done in memory only, and a crash repeats them. Each job has a task for its heartbeat. 1 connection, which also
    listens; logged tables (its default) and the autovacuum settings it recommends.""",
    ),
    Library(
        "pgqueuer singly",
        "pgqueuer_jobs:singly",
        ["pgqueuer", "asyncpg"],
        """the same with run(batch_size=1, max_concurrent_tasks=2N): each job is fetched and completed separately,
    the closest it comes to committing each job before it continues. It does not wait for that commit either.""",
    ),
]
"""Ours is first. All with an event loop use uvloop."""
if BEFORE:
    LIBRARIES.insert(1, LIBRARIES[0]._replace(title="before", does="OctoStore async.", executable=python_of(BEFORE)))


def report(database: Database, jobs: dict[int, int], rounds: int) -> None:
    libraries = [library for library in LIBRARIES if all(map(find_spec, library.needs))]
    rows = []
    for workers, count in jobs.items():
        turns = [partial(_measure, database, library, count, workers) for library in libraries]
        results = interleaved(turns, rounds, PATIENCE_SECONDS)
        for library, own in zip(libraries, results, strict=True):
            rows.append([str(workers), f"{count:,}", library.title, *_cells(own, results[0], count)])
            rows[-1].insert(7, TARGETS.get((library.title, workers), ""))
    title = (
        f"PostgreSQL: jobs per second, enqueued and completed by one process (medians, at most {rounds} rounds)\n"
        "   work: from the first call of the handler, which does nothing, until all are done; both: enqueue + work\n"
        "   per job: CPU of that process and of the database, transactions that wrote something, bytes of WAL"
    )
    rates = ["enqueue/s", "work/s", "both/s", "ours:it", "target"]
    show(title, ["workers", "jobs", "library", *rates, "CPU µs", "database µs", "writes", "WAL"], rows)
    for library in libraries:
        print(f"  {library.title}: {library.does}")
    for library in LIBRARIES:
        if library not in libraries:
            print(f"  {library.title}: not measured; it needs {' and '.join(library.needs)}, from the `bench` extra")
    print(flush=True)


def _measure(database: Database, library: Library, count: int, workers: int) -> Laps:
    with database.schema() as schema:
        jobs = Jobs(library.who, database.url, schema, database.store_url(schema), count, workers)
        return in_own_process("bench.postgres.round", jobs, Laps, library.executable)


def _cells(own: Sequence[Laps], ours: Sequence[Laps], count: int) -> list[str]:
    whole = [_both(laps) for laps in own]
    seconds, our_seconds = [lap.seconds for lap in whole], [_both(laps).seconds for laps in ours]
    return [
        f"{count / median(laps.enqueue.seconds for laps in own):,.0f}",
        f"{count / median(laps.work.seconds for laps in own):,.0f}",
        f"{count / median(seconds):,.0f}",
        "" if own is ours else f"{ratio(seconds, our_seconds):.2f}",
        f"{median(lap.cpu for lap in whole) / count * 1e6:,.0f}",
        f"{median(lap.database_cpu for lap in whole) / count * 1e6:,.0f}",
        f"{median(lap.commits for lap in whole) / count:.2f}",
        f"{median(lap.wal_bytes for lap in whole) / count:,.0f}",
    ]


def _both(laps: Laps) -> Lap:
    pairs = zip(astuple(laps.enqueue), astuple(laps.work), strict=True)
    return Lap(*(one + other for one, other in pairs))
