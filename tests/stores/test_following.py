"""Whoever follows the log hears of every event once and in order, whichever process has written it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from octostore.core.commands import ClaimJob
from octostore.core.events import LogEntry
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore
from tests.support.processes import until


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[LocalStore]]:
    """Two that share a file, as two processes would."""
    stores = [LocalStore(lambda: SqliteBackend(tmp_path / "store.db")) for _ in range(2)]
    yield stores
    for store in stores:
        store.close()


def claim(store: LocalStore, name: str) -> None:
    store.submit([ClaimJob(job_id=name, owner="ann")]).result(30)


def test_own_commits_are_heard_before_they_are_answered(stores: list[LocalStore]) -> None:
    heard: list[LogEntry] = []
    claim(stores[0], "before")
    with stores[0].following(heard.extend) as seq:
        claim(stores[0], "after")
        assert (seq, [entry.job_id for entry in heard]) == (1, ["after"])
    claim(stores[0], "too-late")
    assert len(heard) == 1


def test_the_commits_of_all_are_heard_once_and_in_order(stores: list[LocalStore]) -> None:
    heard: list[LogEntry] = []
    tellers: set[str] = set()

    def take(entries: list[LogEntry]) -> None:
        tellers.add(threading.current_thread().name)
        heard.extend(entries)

    with stores[0].following(take), ThreadPoolExecutor(4) as threads:
        for number in range(200):
            threads.submit(claim, stores[number % 2], f"job-{number}")
        until(lambda: len(heard) == 200)
    assert [entry.seq for entry in heard] == list(range(1, 201))
    assert tellers == {"octostore-writer", "octostore-wakeups"}


def test_following_begins_where_the_log_ends(stores: list[LocalStore]) -> None:
    """Also when others have written since somebody last listened here."""
    with stores[0].listening([("job", "a")], lambda: None):
        claim(stores[0], "a")
    claim(stores[1], "b")
    heard: list[LogEntry] = []
    with stores[0].following(heard.extend) as seq:
        claim(stores[0], "c")
        until(lambda: bool(heard))
    assert (seq, [entry.seq for entry in heard]) == (2, [3])
