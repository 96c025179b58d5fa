"""A store's file, and what can happen to it."""

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import octostore
from octostore.stores.sqlite.connection import make
from tests.support.processes import Worker


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def make_empty(path: Path) -> None:
    """The same as `make`, 50 times as fast. All of these stores have the same id and key."""
    path.touch(0o600)
    path.write_bytes(_empty())


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store.db")
        make(str(path))
        return path.read_bytes()


def fault(call: Callable[[], object]) -> octostore.Unreachable:
    with pytest.raises(octostore.Unreachable) as raised:
        call()
    return raised.value


def claim_and_die(path: Path, *jobs: str) -> None:
    """Claim these in a process that is then killed: its last writes are in the write-ahead log."""
    with Worker("puppet", path) as worker:
        assert worker.hear() == "ready"
        for job in jobs:
            worker.ask("claim_job", job_id=job)
        worker.kill()
    assert Path(f"{path}-wal").stat().st_size
