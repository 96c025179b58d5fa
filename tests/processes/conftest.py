from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore
from octostore.stores.sqlite.connection import make


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "octostore.db"


@pytest.fixture
def store(path: Path) -> Iterator[octostore.OctoStore]:
    make(str(path))
    with octostore.connect(f"sqlite:///{path}") as store:
        yield store
