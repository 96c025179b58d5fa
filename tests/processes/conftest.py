from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore
from tests.support.files import make_empty


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "octostore.db"


@pytest.fixture
def store(path: Path) -> Iterator[octostore.OctoStore]:
    make_empty(path)
    with octostore.connect(f"sqlite:///{path}") as store:
        yield store
