"""A follower of the log gets every event once and in order, whichever process wrote it."""

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
    """Two stores that share a file, as two processes would."""
    stores = [LocalStore(lambda: SqliteBackend(tmp_path / "store.db")) for _ in range(2)]
    stores[0].create()
    yield stores
    for store in stores:
        store.close()


def claim(store: LocalStore, name: str) -> None:
    store.submit([ClaimJob(job_id=name, owner="ann")]).result(30)


def test_own_commits_reach_followers_before_the_reply(stores: list[LocalStore]) -> None:
    heard: list[LogEntry] = []
    claim(stores[0], "before")
    with stores[0].following(heard.extend) as seq:
        claim(stores[0], "after")
        assert (seq, [entry.job_id for entry in heard]) == (1, ["after"])
    claim(stores[0], "too-late")
    assert len(heard) == 1


def test_commits_of_every_process_arrive_once_and_in_order(stores: list[LocalStore]) -> None:
    heard: list[LogEntry] = []
    publishers: set[str] = set()

    def take(entries: list[LogEntry]) -> None:
        publishers.add(threading.current_thread().name)
        heard.extend(entries)

    with stores[0].following(take), ThreadPoolExecutor(4) as threads:
        for number in range(200):
            threads.submit(claim, stores[number % 2], f"job-{number}")
        until(lambda: len(heard) == 200)
    assert [entry.seq for entry in heard] == list(range(1, 201))
    assert publishers == {"octostore-writer", "octostore-wakeups"}


def test_following_begins_where_the_log_ends(stores: list[LocalStore]) -> None:
    """Even if others have written since this process last listened."""
    with stores[0].listening([("job", "a")], lambda: None):
        claim(stores[0], "a")
    claim(stores[1], "b")
    heard: list[LogEntry] = []
    with stores[0].following(heard.extend) as seq:
        claim(stores[0], "c")
        until(lambda: bool(heard))
    assert (seq, [entry.seq for entry in heard]) == (2, [3])


# A process's own commits and its reads of the log, interleaved in every way


def entry(seq: int) -> LogEntry:
    return LogEntry(seq, 0, "claimed", "local", f"job-{seq}", None, None, b"{}")


class Log:
    """A log with several writers and a follower in one process; the test decides when that process reads the log."""

    def __init__(self, page: int = 1_000) -> None:
        self.entries: list[LogEntry] = []
        self.heard: list[int] = []
        self.on_read: list[Callable[[], None]] = []
        """Each runs once, after a read of the log and before its followers are notified."""
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
        """Commit entries without notifying anyone."""
        first = self.entries[-1].seq + 1 if self.entries else 1
        written = [entry(seq) for seq in range(first, first + number)]
        self.entries += written
        return written

    def own(self, number: int = 1) -> None:
        self.wakeups.publish_commit(self.write(number))

    def take(self, entries: list[LogEntry]) -> None:
        self.heard += [one.seq for one in entries]

    def look(self) -> None:
        """Trigger a read, and wait until the follower has every entry."""
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
    assert log.heard == log.everything, "each once, in order, none left out"


def test_an_own_commit_during_a_read(log: Log) -> None:
    """The entries read are out of date before they can be published; later entries must not wait for another read."""
    log.write(2)
    log.on_read.append(lambda: log.wakeups.publish_commit(log.entries[:1]))
    log.look()


def test_an_own_commit_after_a_read(log: Log) -> None:
    log.write()
    log.on_read.append(log.own)
    log.look()


def test_an_own_commit_that_a_read_found_first(log: Log) -> None:
    written = log.write(2)
    log.look()
    log.wakeups.publish_commit(written)
    assert log.heard == [1, 2]


def test_an_own_commit_that_a_read_found_in_part() -> None:
    log = Log(page=2)
    with log.wakeups.following(log.take):
        written = log.write(3)
        log.on_read.append(lambda: log.wakeups.publish_commit(written))
        log.look()
        assert log.heard == [1, 2, 3]
    log.wakeups.close()


def test_an_own_commit_after_anothers(log: Log) -> None:
    """It is published after the earlier entries, without a trigger."""
    log.write()
    log.own()
    until(lambda: len(log.heard) == 2)


def test_more_than_a_page_written_by_others() -> None:
    log = Log(page=2)
    with log.wakeups.following(log.take):
        log.write(7)
        log.look()
        assert log.heard == log.everything
    log.wakeups.close()


@pytest.mark.parametrize("fault", [Unreachable("not now", reason="io"), IndexError("unforeseen")])
def test_a_read_of_the_log_that_fails_once(log: Log, fault: Exception) -> None:
    def fail() -> None:
        raise fault

    log.write()
    log.before_read.append(fail)
    log.look_now()
    until(lambda: log.looks == 1)
    assert log.heard == []
    log.look()


def test_each_of_several_followers_gets_everything(log: Log) -> None:
    log.own()
    other: list[int] = []
    with log.wakeups.following(lambda entries: other.extend(one.seq for one in entries)) as seq:
        assert seq == 1
        log.own()
        log.write()
        log.look()
    log.own()
    assert other == [2, 3]


def test_a_listener_is_rung_only_by_commits_on_its_topics(log: Log) -> None:
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
        assert rung.acquire(timeout=PATIENCE_SECONDS), "by another process's commit too"
    log.own(4)
    assert not rung.acquire(blocking=False)


def test_the_log_is_not_read_while_nobody_listens() -> None:
    log = Log()
    with log.wakeups.following(log.take):
        log.own()
    looks = log.looks
    log.write(3)
    log.look_now()
    with log.wakeups.following(log.take) as seq:
        assert seq == 4, "earlier entries are not published"
        log.own()
        until(lambda: log.heard[-1] == 5)
    assert log.heard == [1, 5]
    assert log.looks <= looks + 2
    log.wakeups.close()
