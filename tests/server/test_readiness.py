"""`/readyz` says that the store can be written; `/livez` only that the server runs."""

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from octostore.core.errors import Unreachable
from octostore.core.working_set import WorkingSet
from octostore.stores.clock import Mark
from octostore.stores.memory import MemoryBackend, MemoryRows
from octostore.stores.store import LocalStore
from tests.support.processes import PATIENCE_SECONDS
from tests.support.served import ServedStore


class Disk(MemoryRows):
    """When it is full, everything works except saving."""

    is_full = False
    saved = 0

    def save(self, ws: WorkingSet, mark: Mark) -> None:
        if self.is_full:
            raise Unreachable("the disk is full", reason="disk_full")
        self.saved += 1
        super().save(ws, mark)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def server(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedStore]:
    monkeypatch.setattr("octostore.server.services.PROBE_SECONDS", -1.0)  # each request is a new probe
    server = ServedStore(LocalStore(lambda: MemoryBackend(disk)), tmp_path)
    yield server
    server.stop()


def status_of(server: ServedStore, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.place.port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {server.token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_server_is_ready_while_its_store_can_be_written(server: ServedStore, disk: Disk) -> None:
    for number in range(1, 4):
        assert status_of(server, "/readyz") == 200
        assert disk.saved == number, "each probe writes"
    disk.is_full = True
    assert status_of(server, "/readyz") == 503
    assert (status_of(server, "/livez"), status_of(server, "/jobs")) == (200, 200)
    disk.is_full = False
    assert status_of(server, "/readyz") == 200


def test_requests_in_quick_succession_share_a_probe(server: ServedStore, disk: Disk) -> None:
    server._services.probe.seconds = 3_600
    assert [status_of(server, "/readyz") for _ in range(5)] == [200] * 5
    assert disk.saved == 1
