"""Agents that have only a shell, and their keepers; no keeper outlives its test."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

import octostore as library
from octostore.keeping.leases import KeptLease
from tests.support.files import make_empty
from tests.support.running import Octostore


def kept_leases(folder: Path) -> list[KeptLease]:
    """All kept leases, of every owner, oldest first."""
    paths = sorted(folder.rglob("*.lease"), key=lambda path: path.stat().st_mtime)
    return [msgspec.json.decode(path.read_bytes(), type=KeptLease) for path in paths]


def end_keepers(folder: Path) -> None:
    for lease in kept_leases(folder):
        if lease.is_kept:
            with suppress(ProcessLookupError):
                os.kill(lease.keeper.pid, signal.SIGKILL)


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = tmp_path / "octostore.db"
    make_empty(path)
    return f"sqlite:///{path}"


@pytest.fixture
def store(url: str) -> Iterator[library.OctoStore]:
    with library.connect(url) as store:
        yield store


@pytest.fixture
def agent(url: str, tmp_path: Path) -> Iterator[Octostore]:
    with Octostore(url, tmp_path, OCTOSTORE_OWNER="agent-3") as octostore:
        try:
            yield octostore
        finally:
            end_keepers(tmp_path)
