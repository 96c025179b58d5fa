from collections.abc import Iterator
from pathlib import Path

import pytest

from octostore.stores.base import Backend
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.connection import parse_address
from octostore.stores.sqlite import SqliteBackend
from tests.support import postgres
from tests.support.files import make_empty
from tests.support.world import DatabaseClock, ManualClock, World


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Each store in turn, with a clock and randomness that the test controls."""
    clock = DatabaseClock() if request.param == "postgres" else ManualClock()
    backend: Backend | None = None
    url = None
    if request.param == "sqlite":
        make_empty(tmp_path / "store.db")
        backend = SqliteBackend(tmp_path / "store.db")
    elif request.param == "postgres":
        url = postgres.empty_store()
        backend = PostgresBackend(parse_address(url), lambda: clock.now_ms)
    world = World(backend, clock)
    yield world
    world.backend.close()
    if url is not None:
        postgres.put_back(url)


@pytest.fixture(scope="session")
def postgres_url() -> str:
    return postgres.postgres_url()
