"""The real store, optionally with a clock that starts at a sample file's time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns

from octostore.stores.clock import Clock, Mark
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore


@contextmanager
def opened(path: Path, clock: Clock | None = None) -> Iterator[LocalStore]:
    store = LocalStore(lambda: SqliteBackend(path), clock=clock)
    try:
        yield store
    finally:
        store.close()


def clock_from(moment_ms: int) -> Clock:
    """A clock that starts at `moment_ms`, so that the claims in an old sample file have not expired."""
    begin_ns = monotonic_ns()
    return lambda last: Mark(max(moment_ms + (monotonic_ns() - begin_ns) // 1_000_000, last.now), "bench", 0)
