from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore as library
from tests.support.files import make_empty
from tests.support.running import Octostore, Served
from tests.support.server import ServerProcess


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "octostore.db"


@pytest.fixture
def store(path: Path) -> Iterator[library.OctoStore]:
    make_empty(path)
    with library.connect(f"sqlite:///{path}") as store:
        yield store


@pytest.fixture
def octostore(path: Path, store: library.OctoStore) -> Iterator[Octostore]:
    """The command line on the same file as `store`."""
    assert store  # it has created the file
    with Octostore(f"sqlite:///{path}", path.parent) as octostore:
        yield octostore


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    home = tmp_path / "server"
    with (
        ServerProcess(home) as server,
        Octostore(server.url, tmp_path, OCTOSTORE_TOKEN=server.token) as octostore,
    ):
        yield Served(server, octostore, home / "octostore.db")
