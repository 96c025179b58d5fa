"""The embedded store with a clock that the test controls, and access to its internals."""

import sys
import threading
from pathlib import Path
from types import FrameType

import apsw

import octostore
from octostore.client.embedded import EmbeddedPort
from octostore.client.reader import follow_log
from octostore.core.needs import Needs
from octostore.stores.base import Backend
from octostore.stores.clock import Clock
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore


def open_with_clock(path: Path, clock: Clock) -> octostore.OctoStore:
    return octostore.OctoStore(EmbeddedPort(LocalStore(lambda: SqliteBackend(path), clock=clock)))


def local_store(store: octostore.OctoStore) -> LocalStore:
    port = store._port
    assert isinstance(port, EmbeddedPort)
    return port.store


def backend_of(store: octostore.OctoStore) -> SqliteBackend:
    backend = local_store(store).engine.backend
    assert isinstance(backend, SqliteBackend)
    return backend


def writer_of(backend: Backend) -> apsw.Connection:
    """The connection it writes with, which it opens at its first transaction."""
    assert isinstance(backend, SqliteBackend)
    with backend.writing(Needs()):
        pass
    assert backend._writer is not None
    return backend._writer


def waiting_threads() -> int:
    """The number of threads of this process that wait to be woken."""
    return sum(map(_waits_to_be_woken, sys._current_frames().values()))


def _waits_to_be_woken(frame: FrameType | None) -> bool:
    waiters = {EmbeddedPort.execute.__code__, follow_log.__code__}
    while frame is not None:
        caller = frame.f_back
        if frame.f_code is threading.Event.wait.__code__ and caller is not None and caller.f_code in waiters:
            return True
        frame = caller
    return False
