"""Section 11: jobs enqueued, claimed and completed, next to two libraries that do so on the same PostgreSQL."""

from collections.abc import Sequence
from importlib.util import find_spec
from statistics import median
from time import monotonic
from typing import NamedTuple

from bench.postgres.database import Database
from bench.postgres.laps import AT_ONCE, Jobs, Lap, Laps
from bench.served.processes import in_own_process
from bench.tables import show

PATIENCE_SECONDS = 30.0
"""After so long there is no further round with as many workers, however slow the machine is."""
AIM = "1.00"


class Library(NamedTuple):
    title: str
    who: str
    """Module and function that runs the jobs."""
    needs: Sequence[str]
    does: str
    """How it enqueues and works, for people to read; with the number of workers as N."""


LIBRARIES = [
    Library(
        "OctoStore",
        "octostore_jobs:in_threads",
        [],
        f"""{AT_ONCE} threads call enqueue(), then work(concurrency=N): N threads, each of which completes a job and
    claims the next in one go. What waits at the same time is one transaction of the store's one writer. Claims and
    completions are durable before they are answered; each job has a lease, and one thread heartbeats for all.
    1 connection; nobody listens or polls, as nobody waits for jobs to come.""",
    ),
    Library(
        "OctoStore async",
        "octostore_jobs:in_tasks",
        [],
        f"""the same with AsyncOctoStore: {AT_ONCE} tasks call enqueue(), N tasks work. 1 connection.""",
    ),
    Library(
        "procrastinate",
        "procrastinate_jobs:in_tasks",
        ["procrastinate"],
        f"""batch_defer_async() of {AT_ONCE}, then run_worker_async(concurrency=N): a loop fetches one job after the
    other, up to N tasks run them and complete each by itself. Claims and completions are durable before it goes on;
    the worker has a heartbeat, but jobs of a dead one wait for somebody to retry them. A pool of 4 connections (its
    default) and 1 that listens.""",
    ),
    Library(
        "pgqueuer",
        "pgqueuer_jobs:in_tasks",
        ["pgqueuer", "asyncpg"],
        f"""enqueue() of {AT_ONCE}, then run(batch_size=N, max_concurrent_tasks=2N, the least it takes): one statement
    fetches N jobs, and one completes those of which N have come together, or that are there every 0.1 seconds: until
    then they are done in memory only, and a crash repeats them. Each job has a task for its heartbeat. 1 connection,
    which listens, too; logged tables (its default) and the autovacuum that it recommends.""",
    ),
    Library(
        "pgqueuer singly",
        "pgqueuer_jobs:singly",
        ["pgqueuer", "asyncpg"],
        """the same with run(batch_size=1, max_concurrent_tasks=2N): each job is fetched and completed by itself, the
    nearest that it has to writing down what was done before going on. It does not wait for that either.""",
    ),
]
"""All on uvloop, where there is a loop."""


def report(database: Database, jobs: dict[int, int], rounds: int) -> None:
    libraries = [library for library in LIBRARIES if all(map(find_spec, library.needs))]
    rows = []
    for workers, count in jobs.items():
        measured = _rounds(database, libraries, count, workers, rounds)
        rows += [_row(workers, count, library, measured) for library in libraries]
    title = (
        f"11. Jobs per second on PostgreSQL, enqueued and worked off by a process (medians, at most {rounds} rounds)\n"
        "   work: from the first call of the handler, which does nothing, until all are done; both: enqueue + work\n"
        "   and for each job: milliseconds of CPU of that process, transactions that wrote something, bytes of WAL"
    )
    rates, costs = ["enqueue/s", "work/s", "both/s", "OctoStore:it", "aim"], ["CPU ms", "writes", "WAL"]
    show(title, ["workers", "jobs", "library", *rates, *costs], rows)
    for library in libraries:
        print(f"  {library.title}: {library.does}")
    for library in LIBRARIES:
        if library not in libraries:
            print(f"  {library.title}: not measured; it needs {' and '.join(library.needs)} of the extra `bench`")
    print(flush=True)


def _rounds(
    database: Database, libraries: list[Library], count: int, workers: int, rounds: int
) -> list[dict[str, Laps]]:
    measured: list[dict[str, Laps]] = []
    deadline = monotonic() + PATIENCE_SECONDS
    while len(measured) < rounds and (not measured or monotonic() < deadline):
        first = len(measured) % len(libraries)
        in_turn = libraries[first:] + libraries[:first]
        measured.append({library.title: _measure(database, library, count, workers) for library in in_turn})
    return measured


def _measure(database: Database, library: Library, count: int, workers: int) -> Laps:
    with database.schema() as schema:
        jobs = Jobs(library.who, database.url, schema, database.store_url(schema), count, workers)
        return in_own_process("bench.postgres.round", jobs, Laps)


def _row(workers: int, count: int, library: Library, measured: list[dict[str, Laps]]) -> list[str]:
    title = library.title
    own = [of_round[title] for of_round in measured]
    # Of each round by itself: the machine's pace may change from one to the next.
    ratio = median(
        _both(of_round[title]).seconds / _both(of_round[LIBRARIES[0].title]).seconds for of_round in measured
    )
    whole = [_both(laps) for laps in own]
    return [
        str(workers),
        f"{count:,}",
        title,
        f"{count / median(laps.enqueue.seconds for laps in own):,.0f}",
        f"{count / median(laps.work.seconds for laps in own):,.0f}",
        f"{count / median(lap.seconds for lap in whole):,.0f}",
        f"{ratio:.2f}" if title != LIBRARIES[0].title else "",
        AIM if library.needs else "",
        f"{median(lap.cpu for lap in whole) / count * 1e3:.2f}",
        f"{median(lap.commits for lap in whole) / count:.2f}",
        f"{median(lap.wal_bytes for lap in whole) / count:,.0f}",
    ]


def _both(laps: Laps) -> Lap:
    first, second = laps.enqueue, laps.work
    return Lap(
        first.seconds + second.seconds,
        first.cpu + second.cpu,
        first.commits + second.commits,
        first.wal_bytes + second.wal_bytes,
    )
