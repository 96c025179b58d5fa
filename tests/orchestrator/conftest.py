"""The same scenarios on a SQLite file and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import octostore
from octostore import RetryPolicy
from octostore.orchestrator import Orchestrator
from tests.support.postgres import new_schema


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_schema() if request.param == "postgres" else f"sqlite:///{tmp_path}/orchestrator.db"


@pytest.fixture
def orchestrator(url: str) -> Iterator[Orchestrator]:
    with octostore.connect(url, retry=RetryPolicy(base_ms=0, cap_ms=0)) as store:
        yield Orchestrator(store)
