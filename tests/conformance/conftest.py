"""The stores and clients that the suite runs against. A new one is a new entry in `KINDS`, and nothing else."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from octostore import AsyncOctoStore, OctoStore, RetryPolicy
from octostore.client.embedded import AsyncEmbeddedPort, EmbeddedPort
from octostore.stores.memory import MemoryBackend
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore, usual_given
from tests.support.async_as_sync import Loop, StoreAsSync
from tests.support.world import ManualClock

RETRY = RetryPolicy(base_ms=1_000, factor=2, cap_ms=60_000, jitter=0)


class System(NamedTuple):
    """A store as its users see it, with time in the test's hands."""

    store: OctoStore
    other: OctoStore
    """Somebody else's connection to the same store, where there is such a thing."""
    advance: Callable[[float], None]


def open_memory(_folder: Path, clock: ManualClock) -> tuple[LocalStore, LocalStore]:
    store = LocalStore(MemoryBackend, clock=clock, given=usual_given(RETRY))
    return store, store


def open_sqlite(folder: Path, clock: ManualClock) -> tuple[LocalStore, LocalStore]:
    def open_one() -> LocalStore:
        return LocalStore(lambda: SqliteBackend(folder / "store.db"), clock=clock, given=usual_given(RETRY))

    return open_one(), open_one()


KINDS: dict[str, Callable[[Path, ManualClock], tuple[LocalStore, LocalStore]]] = {
    "memory": open_memory,
    "sqlite": open_sqlite,
}


@pytest.fixture(params=[f"{kind}-{client}" for kind in KINDS for client in ("sync", "async")])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[System]:
    kind, client = request.param.split("-")
    clock = ManualClock()
    stores = KINDS[kind](tmp_path, clock)
    if client == "sync":
        first, second = (OctoStore(EmbeddedPort(store)) for store in stores)
        yield System(first, second, clock.advance)
    else:
        loop = Loop()
        adapted: Any = [StoreAsSync(loop, AsyncOctoStore(AsyncEmbeddedPort(store))) for store in stores]
        yield System(adapted[0], adapted[1], clock.advance)
        loop.stop()
    for store in stores:
        store.close()


@pytest.fixture
def store(system: System) -> OctoStore:
    return system.store
