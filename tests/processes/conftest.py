from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "octostore.db"


@pytest.fixture
def store(path: Path) -> Iterator[octostore.OctoStore]:
    with octostore.connect(f"sqlite:///{path}") as store:
        yield store
