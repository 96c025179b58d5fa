"""Whoever follows the log hears of every event once and in order, whichever process has written it."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from octostore.core.commands import ClaimJob
from octostore.core.errors import Unreachable
from octostore.core.events import LogEntry
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore
from octostore.stores.wakeups import Wakeups
from tests.support.processes import PATIENCE_SECONDS, until


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[LocalStore]]:
    """Two that share a file, as two processes would."""
    stores = [LocalStore(lambda: SqliteBackend(tmp_path / "store.db")) for _ in range(2)]
    stores[0].create()
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


# Commits of one's own, and looks at the log, at every moment of each other


def entry(seq: int) -> LogEntry:
    return LogEntry(seq, 0, "claimed", "local", f"job-{seq}", None, None, b"{}")


class Log:
    """A log that several write to, with a follower in one of the processes, and its looks in the test's hands."""

    def __init__(self, page: int = 1_000) -> None:
        self.entries: list[LogEntry] = []
        self.heard: list[int] = []
        self.on_read: list[Callable[[], None]] = []
        """What happens when the log has been read, and nobody has been told yet: once each."""
        self.before_read: list[Callable[[], None]] = []
        self.looks = 0
        self.look_now: Callable[[], None]
        self._page = page
        self.wakeups = Wakeups(self._read, self._on_foreign_commit, lambda: 3_600.0)

    def _on_foreign_commit(self, ring: Callable[[], None]) -> None:
        self.look_now = ring

    def _read(self, after: int | None) -> tuple[list[LogEntry], int]:
        last = self.entries[-1].seq if self.entries else 0
        if after is None:
            return [], last
        self.looks += 1
        if self.before_read:
            self.before_read.pop(0)()
        found = [one for one in self.entries if one.seq > after][: self._page]
        last = found[-1].seq if found else max(after, self.entries[-1].seq if self.entries else 0)
        if self.on_read:
            self.on_read.pop(0)()
        return found, last

    def write(self, number: int = 1) -> list[LogEntry]:
        """Committed, by whomever; nobody has heard of it."""
        first = self.entries[-1].seq + 1 if self.entries else 1
        written = [entry(seq) for seq in range(first, first + number)]
        self.entries += written
        return written

    def own(self, number: int = 1) -> None:
        self.wakeups.publish_commit(self.write(number))

    def take(self, entries: list[LogEntry]) -> None:
        self.heard += [one.seq for one in entries]

    def look(self) -> None:
        """And wait until what there was has been seen."""
        self.look_now()
        until(lambda: self.heard[-1:] == [self.entries[-1].seq])

    @property
    def everything(self) -> list[int]:
        return [one.seq for one in self.entries]


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    with log.wakeups.following(log.take) as seq:
        assert seq == 0
        yield log
        log.own()
        log.look()
    log.wakeups.close()
    assert log.heard == log.everything, "once each, in order, and none left out"


def test_a_commit_of_ones_own_while_the_log_is_read(log: Log) -> None:
    """What was read is out of date by the time it could be told; what came after it must not wait for another look."""
    log.write(2)
    log.on_read.append(lambda: log.wakeups.publish_commit(log.entries[:1]))
    log.look()


def test_a_commit_of_ones_own_after_the_log_was_read(log: Log) -> None:
    log.write()
    log.on_read.append(log.own)
    log.look()


def test_a_commit_of_ones_own_that_a_look_has_found_first(log: Log) -> None:
    written = log.write(2)
    log.look()
    log.wakeups.publish_commit(written)
    assert log.heard == [1, 2]


def test_a_commit_of_ones_own_of_which_a_look_has_found_a_part() -> None:
    log = Log(page=2)
    with log.wakeups.following(log.take):
        written = log.write(3)
        log.on_read.append(lambda: log.wakeups.publish_commit(written))
        log.look()
        assert log.heard == [1, 2, 3]
    log.wakeups.close()


def test_a_commit_of_ones_own_after_somebody_elses(log: Log) -> None:
    """It is told after what came before it, and nobody has to ask for that."""
    log.write()
    log.own()
    until(lambda: len(log.heard) == 2)


def test_more_than_a_page_of_somebody_elses() -> None:
    log = Log(page=2)
    with log.wakeups.following(log.take):
        log.write(7)
        log.look()
        assert log.heard == log.everything
    log.wakeups.close()


@pytest.mark.parametrize("fault", [Unreachable("not now", reason="io"), IndexError("which nobody foresaw")])
def test_a_log_that_cannot_be_read_for_a_moment(log: Log, fault: Exception) -> None:
    def fail() -> None:
        raise fault

    log.write()
    log.before_read.append(fail)
    log.look_now()
    until(lambda: log.looks == 1)
    assert log.heard == []
    log.look()


def test_each_of_several_followers_hears_everything(log: Log) -> None:
    log.own()
    other: list[int] = []
    with log.wakeups.following(lambda entries: other.extend(one.seq for one in entries)) as seq:
        assert seq == 1
        log.own()
        log.write()
        log.look()
    log.own()
    assert other == [2, 3]


def test_whoever_listens_is_rung_by_each_commit_that_concerns_it_and_by_no_other(log: Log) -> None:
    rung = threading.Semaphore(0)

    def ring() -> None:
        rung.release()

    with log.wakeups.listening([("job", "job-2"), ("job", "job-4")], ring):
        log.own()
        assert not rung.acquire(blocking=False)
        log.own()
        assert rung.acquire(timeout=PATIENCE_SECONDS)
        log.write(2)
        log.look()
        assert rung.acquire(timeout=PATIENCE_SECONDS), "also by one of somebody else"
    log.own(4)
    assert not rung.acquire(blocking=False)


def test_nobody_looks_while_nobody_listens() -> None:
    log = Log()
    with log.wakeups.following(log.take):
        log.own()
    looks = log.looks
    log.write(3)
    log.look_now()
    with log.wakeups.following(log.take) as seq:
        assert seq == 4, "what happened meanwhile is not news"
        log.own()
        until(lambda: log.heard[-1] == 5)
    assert log.heard == [1, 5]
    assert log.looks <= looks + 2
    log.wakeups.close()
