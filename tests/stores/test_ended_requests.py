"""Request ids remembered after their claims ended: the newest of each principal, and all of the last hour."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octostore.core import commands as c
from octostore.core.errors import LeaseLost
from octostore.core.limits import REQUESTS_KEPT, REQUESTS_KEPT_MS
from octostore.stores.base import Backend
from octostore.stores.clock import Mark, as_stored
from octostore.stores.memory import MemoryBackend
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.connection import parse_address
from octostore.stores.sqlite import SqliteBackend
from tests.support.postgres import new_schema
from tests.support.world import ManualClock, World

KEPT = 5


class AsStored(ManualClock):
    def __call__(self, last: Mark) -> Mark:
        return as_stored(last)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for module in ("memory", "transaction"):
        monkeypatch.setattr(f"octostore.stores.{module}.REQUESTS_KEPT", KEPT)
    monkeypatch.setattr("octostore.stores.listing.FORGET_EVERY", 1)
    clock = ManualClock()
    backends: dict[str, Callable[[], Backend]] = {
        "memory": MemoryBackend,
        "sqlite": lambda: SqliteBackend(tmp_path / "store.db"),
        "postgres": lambda: PostgresBackend(parse_address(new_schema()), lambda: clock.now_ms),
    }
    world = World(backends[request.param](), AsStored() if request.param == "postgres" else clock)
    world.advance = clock.advance  # type: ignore[method-assign]
    yield world
    world.backend.close()


def claim(number: int, principal: str = "ann") -> c.ClaimJob:
    return c.ClaimJob(job_id=f"job-{number}", owner="ann", principal=principal, request_id=f"r-{number}")


def use(world: World, numbers: range, principal: str = "ann") -> None:
    for number in numbers:
        reply = world.do(claim(number, principal))
        world.do(c.ReleaseJob(job_id=f"job-{number}", lease_id=reply.lease_id or "", principal=principal))


def is_remembered(world: World, number: int, principal: str = "ann") -> bool:
    try:
        reply = world.do(claim(number, principal))
    except LeaseLost:
        return True
    world.do(c.Undo(job_id=f"job-{number}", lease_id=reply.lease_id or ""))
    return False


def test_the_promise_is_an_hour_and_ten_thousand() -> None:
    assert (REQUESTS_KEPT_MS, REQUESTS_KEPT) == (60 * 60 * 1_000, 10_000)


def test_old_ids_are_forgotten_though_not_at_every_commit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octostore.stores.listing.FORGET_EVERY", 8)
    use(world, range(3 * KEPT))
    world.advance(3_601)
    use(world, range(100, 100 + 3 * KEPT))
    assert not any(is_remembered(world, number) for number in range(2 * KEPT))


def test_within_an_hour_all_are_remembered(world: World) -> None:
    use(world, range(3 * KEPT))
    world.advance(3_599)
    use(world, range(100, 102))
    assert all(is_remembered(world, number) for number in range(3 * KEPT))


def test_after_an_hour_only_the_newest_are_remembered(world: World) -> None:
    use(world, range(3 * KEPT))
    world.advance(3_601)
    use(world, range(100, 100 + 3 * KEPT))
    assert not any(is_remembered(world, number) for number in range(3 * KEPT))
    assert all(is_remembered(world, number) for number in range(100, 100 + 3 * KEPT))


def test_the_newest_are_remembered_however_old_they_are(world: World) -> None:
    use(world, range(KEPT))
    world.advance(86_400)
    assert all(is_remembered(world, number) for number in range(KEPT))


def test_one_principal_does_not_push_out_anothers_ids(world: World) -> None:
    use(world, range(KEPT), "ann")
    world.advance(86_400)
    use(world, range(100, 100 + 4 * KEPT), "bob")
    assert all(is_remembered(world, number, "ann") for number in range(KEPT))
