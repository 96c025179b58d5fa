"""The stores and clients that the suite runs against. A new one is a new entry in `KINDS`, and nothing else."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from octostore import AsyncOctoStore, OctoStore, RetryPolicy
from octostore.client.async_embedded import AsyncEmbeddedPort
from octostore.client.embedded import EmbeddedPort
from octostore.client.http.async_port import AsyncHttpPort
from octostore.client.http.port import HttpPort
from octostore.client.port import AsyncPort, Port
from octostore.stores.base import Backend
from octostore.stores.clock import Clock, Mark, as_stored
from octostore.stores.memory import MemoryBackend
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.connection import parse_address
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore, default_sources
from octostore.stores.wakeups import Topic
from tests.support.async_as_sync import Loop, StoreAsSync
from tests.support.files import make_empty
from tests.support.postgres import empty_store, put_back
from tests.support.served import ServedStore
from tests.support.world import ManualClock

RETRY = RetryPolicy(base_ms=1_000, factor=2, cap_ms=60_000, jitter=0)


class System:
    """A store as its users see it, with a clock that the test controls."""

    def __init__(
        self, connect: Callable[[], OctoStore], advance: Callable[[float], None], waiting: Callable[[], int]
    ) -> None:
        self._connect = connect
        self.advance = advance
        self.waiting = waiting
        """How many claims are waiting, and would be woken if they became possible now."""
        self.store = connect()

    @cached_property
    def other(self) -> OctoStore:
        """Another user's connection to the same store."""
        return self._connect()


class Opened(NamedTuple):
    """How to connect to a store, once for each user, and how to close it after the last one."""

    connect: Callable[[], Port]
    connect_async: Callable[[], AsyncPort]
    close: Callable[[], None]
    waiting: Callable[[], int]


class WatchedStore(LocalStore):
    """Counts its listeners."""

    listeners = 0

    @contextmanager
    def listening(self, topics: Iterable[Topic], ring: Callable[[], None]) -> Iterator[None]:
        with super().listening(topics, ring):
            self.listeners += 1
            try:
                yield
            finally:
                self.listeners -= 1


class OneForEach:
    """A store for each user."""

    def __init__(self, open_backend: Callable[[], Backend], clock: Clock) -> None:
        self._open_backend = open_backend
        self._clock = clock
        self._stores: list[WatchedStore] = []

    def open(self) -> WatchedStore:
        self._stores.append(WatchedStore(self._open_backend, clock=self._clock, sources=default_sources(RETRY)))
        return self._stores[-1]

    def opened(self) -> Opened:
        return Opened(
            lambda: EmbeddedPort(self.open()), lambda: AsyncEmbeddedPort(self.open()), lambda: None, self.waiting
        )

    def waiting(self) -> int:
        return sum(store.listeners for store in self._stores)


def open_memory(_folder: Path, clock: ManualClock) -> Opened:
    store = WatchedStore(MemoryBackend, clock=clock, sources=default_sources(RETRY))
    return Opened(lambda: EmbeddedPort(store), lambda: AsyncEmbeddedPort(store), store.close, lambda: store.listeners)


def open_sqlite(folder: Path, clock: ManualClock) -> Opened:
    make_empty(folder / "store.db")
    return OneForEach(lambda: SqliteBackend(folder / "store.db"), clock).opened()


def open_server(folder: Path, clock: ManualClock) -> Opened:
    make_empty(folder / "store.db")
    store = LocalStore(lambda: SqliteBackend(folder / "store.db"), clock=clock, sources=default_sources(RETRY))
    server = ServedStore(store, folder)
    place, token = server.place, server.token
    return Opened(
        lambda: HttpPort(place, token), lambda: AsyncHttpPort(place, token), server.stop, lambda: server.waiting
    )


def open_postgres(_folder: Path, clock: ManualClock) -> Opened:
    url = empty_store()
    stores = OneForEach(partial(PostgresBackend, parse_address(url), lambda: clock(Mark(0, "", 0)).now), as_stored)
    return stores.opened()._replace(close=lambda: put_back(url))


KINDS: dict[str, Callable[[Path, ManualClock], Opened]] = {
    "memory": open_memory,
    "sqlite": open_sqlite,
    "http": open_server,
    "postgres": open_postgres,
}


CLIENTS = [f"{kind}-{client}" for kind in KINDS for client in ("sync", "async")]
# Above the store, the async client is the same for every store that is opened in the process.
CLIENTS.remove("postgres-async")


@pytest.fixture(params=CLIENTS)
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[System]:
    kind, client = request.param.split("-")
    clock = ManualClock()
    with ExitStack() as cleanup:
        opened = KINDS[kind](tmp_path, clock)
        cleanup.callback(opened.close)
        loop = None if client == "sync" else Loop()
        if loop is not None:
            cleanup.callback(loop.stop)

        def connect() -> Any:
            if loop is None:
                store: Any = OctoStore(opened.connect())
            else:
                store = StoreAsSync(loop, loop.run(_open_async(opened.connect_async)))
            cleanup.callback(store.close)
            return store

        yield System(connect, clock.advance, opened.waiting)


async def _open_async(connect: Callable[[], AsyncPort]) -> AsyncOctoStore:
    """Open the client in the loop that will use it."""
    return AsyncOctoStore(connect())


@pytest.fixture
def store(system: System) -> OctoStore:
    return system.store
