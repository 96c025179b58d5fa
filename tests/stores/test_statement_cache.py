"""Every statement is compiled once, however large the batches are."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from octostore.core import commands as c
from octostore.stores.sqlite import SqliteBackend
from tests.support.world import ManualClock, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(SqliteBackend(tmp_path / "store.db"), ManualClock())
    yield world
    world.backend.close()


NUMBERS = count()
"""Every name is new."""


def locks_come_and_go(world: World, size: int) -> None:
    names = [f"job-{next(NUMBERS)}" for _ in range(size)]
    claims = world.batch([c.ClaimJob(job_id=name, owner="ann", request_id=f"for-{name}") for name in names])
    leases = [(claim.job_id, claim.lease_id) for claim in claims]
    world.batch([c.HeartbeatJob(job_id=job, lease_id=lease) for job, lease in leases])
    world.batch([c.ReleaseJob(job_id=job, lease_id=lease) for job, lease in leases])


def tasks_come_and_go(world: World, size: int) -> None:
    names = [f"job-{next(NUMBERS)}" for _ in range(size)]
    world.batch([c.Enqueue(job_id=name, kind="k", queue="q", payload=b"{}") for name in names])
    claims = world.batch([c.ClaimNext(owner="ann", queue="q") for _ in range(size)])
    leases = [(claim.job_id, claim.lease_id) for claim in claims]
    world.batch([c.CheckpointJob(job_id=job, lease_id=lease, data=b"{}") for job, lease in leases])
    world.batch([c.ReleaseJob(job_id=job, lease_id=lease, outcome="done", result=b"1") for job, lease in leases])


@pytest.mark.parametrize("size", [1, 5, 48, 64])
@pytest.mark.parametrize("work", [locks_come_and_go, tasks_come_and_go])
def test_nothing_is_compiled_again(world: World, work: Callable[[World, int], None], size: int) -> None:
    work(world, size)
    compiled = misses(world)
    for _ in range(3):
        work(world, size)
    assert misses(world) == compiled


def misses(world: World) -> int:
    assert isinstance(world.backend, SqliteBackend)
    assert world.backend._writer is not None
    return world.backend._writer.cache_stats()["misses"]
