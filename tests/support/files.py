"""A store's file, and what can happen to it."""

from collections.abc import Callable
from pathlib import Path

import pytest

import octostore
from tests.support.processes import Worker


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def fault(call: Callable[[], object]) -> octostore.Unreachable:
    with pytest.raises(octostore.Unreachable) as raised:
        call()
    return raised.value


def claim_and_die(path: Path, *jobs: str) -> None:
    """A process claims these, and is killed: what it wrote last is in its write-ahead log."""
    with Worker("puppet", path) as worker:
        assert worker.hear() == "ready"
        for job in jobs:
            worker.ask("claim_job", job_id=job)
        worker.kill()
    assert Path(f"{path}-wal").stat().st_size
