"""The writer's line: first come, first served; batches are limited; every caller gets its own error."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from octostore.core.commands import AnyCommand, ClaimJob
from octostore.core.errors import Unreachable
from octostore.stores import pace
from octostore.stores.base import TryAgain
from octostore.stores.batch import Committed, ReplyOrError
from octostore.stores.readers import IDLE_READERS
from octostore.stores.sqlite.backend import SqliteBackend
from octostore.stores.sqlite.connection import make
from octostore.stores.writer import MAX_BATCH, Writer
from tests.support.processes import PATIENCE_SECONDS, until

COMMIT_SECONDS = 0.003


class FailingStore:
    """Records the commands it runs, and raises `faults` first."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.sizes: list[int] = []
        self.faults: list[Exception] = []
        self.is_open = threading.Event()

    def run(self, commands: Sequence[AnyCommand]) -> Committed:
        assert self.is_open.wait(PATIENCE_SECONDS)
        if self.faults:
            raise self.faults.pop(0)
        names = [command.job_id for command in commands if isinstance(command, ClaimJob)]
        self.sizes.append(len(names))
        self.done += names
        return Committed(list(names), [], [], [], COMMIT_SECONDS)


@pytest.fixture
def failing() -> FailingStore:
    return FailingStore()


@pytest.fixture
def writer(failing: FailingStore) -> Iterator[Writer]:
    writer = Writer(failing.run, lambda _committed: None)
    yield writer
    failing.is_open.set()
    writer.close()


def submit(writer: Writer, number: int, first: int = 0) -> list[list[ReplyOrError] | Exception]:
    outcomes: list[list[ReplyOrError] | Exception] = []
    for n in range(first, first + number):
        writer.submit([ClaimJob(job_id=f"job-{n}", owner="ann")], outcomes.append)
    return outcomes


def test_nobody_overtakes_commands_that_are_retried(failing: FailingStore, writer: Writer) -> None:
    away = Unreachable("it is away", reason="network")
    failing.faults = [TryAgain(away), TryAgain(away)]
    outcomes = submit(writer, 2 * MAX_BATCH + 3)
    failing.is_open.set()
    until(lambda: len(outcomes) == 2 * MAX_BATCH + 3)
    assert failing.done == [f"job-{n}" for n in range(2 * MAX_BATCH + 3)]
    assert outcomes == [[name] for name in failing.done], "each got its own reply"


def test_a_start_that_was_interrupted_leaves_one_writer(
    failing: FailingStore, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[threading.Thread] = []

    def start(thread: threading.Thread, start: Callable[[threading.Thread], None] = threading.Thread.start) -> None:
        if thread.name == "octostore-writer" and not started:
            started.append(threading.Thread(target=writer._work, daemon=True))
            start(started[0])
            raise KeyboardInterrupt  # as if during the wait for the new thread to run
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    failing.is_open.set()
    with pytest.raises(KeyboardInterrupt):
        submit(writer, 1)
    outcomes = submit(writer, 3)
    until(lambda: len(outcomes) == 3)
    closing = threading.Thread(target=writer.close, daemon=True)
    closing.start()
    for thread in (closing, *started):
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def test_the_size_of_a_batch_is_limited(failing: FailingStore, writer: Writer) -> None:
    outcomes = submit(writer, 3 * MAX_BATCH)
    failing.is_open.set()
    until(lambda: len(outcomes) == 3 * MAX_BATCH)
    assert max(failing.sizes) <= MAX_BATCH
    assert len(failing.sizes) <= 5, "batches are filled"


def test_every_caller_of_a_failing_batch_gets_the_error(failing: FailingStore, writer: Writer) -> None:
    first = submit(writer, 1)
    failing.is_open.set()
    until(lambda: len(first) == 1)
    failing.is_open.clear()
    blocked = submit(writer, 1, first=1)
    together = submit(writer, 3, first=2)
    failing.faults = [Unreachable("no disk", reason="io")] * 2
    failing.is_open.set()
    until(lambda: len(blocked) + len(together) == 4)
    errors = [*blocked, *together]
    assert [getattr(error, "reason", None) for error in errors] == ["io"] * 4
    assert len({id(error) for error in errors}) == 4, "each caller raises, and so changes, its own error"


# Connections to a file


@pytest.fixture
def backend(tmp_path: Path) -> SqliteBackend:
    make(str(tmp_path / "store.db"))
    return SqliteBackend(tmp_path / "store.db")


def test_only_a_few_connections_are_kept_for_later(backend: SqliteBackend) -> None:
    with ExitStack() as readings:
        for _ in range(2 * IDLE_READERS):
            readings.enter_context(backend.reading()).counters()
    assert len(backend._readers.idle) == IDLE_READERS
    backend.close()


def test_a_closed_file_is_not_read_and_its_readers_are_closed(backend: SqliteBackend) -> None:
    (connection,) = backend._readers.idle
    with backend.reading() as reading:
        reading.counters()
        backend.close()
    assert backend._readers.idle == []
    with pytest.raises(apsw.ConnectionClosedError):
        connection.execute("SELECT 1")
    with pytest.raises(Unreachable) as fault, backend.reading():
        pass
    assert fault.value.reason == "closed"


# In the caller's thread


class Moments:
    """The clock of `Pace`, set by the test."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Moments:
    moments = Moments()
    monkeypatch.setattr(pace, "time", moments)
    return moments


@pytest.fixture
def hasty(failing: FailingStore) -> Iterator[Writer]:
    failing.is_open.set()
    writer = Writer(failing.run, lambda _committed: None, failing.run)
    yield writer
    failing.is_open.set()
    writer.close()


CLAIM = [ClaimJob(job_id="here", owner="ann")]


def test_a_quick_command_runs_in_the_callers_thread(failing: FailingStore, hasty: Writer) -> None:
    assert hasty.run_here(CLAIM) == ["here"]
    assert hasty._thread is None
    assert failing.sizes == [1]


def test_commands_for_a_remote_store_go_to_the_thread(failing: FailingStore, writer: Writer) -> None:
    assert writer.run_here(CLAIM) is None
    assert failing.sizes == []


def test_nobody_is_overtaken(failing: FailingStore, hasty: Writer) -> None:
    failing.is_open.clear()
    outcomes = submit(hasty, 1)
    assert hasty.run_here(CLAIM) is None
    failing.is_open.set()
    until(lambda: len(outcomes) == 1)
    assert hasty.run_here(CLAIM) == ["here"]


def test_two_threads_never_write_at_once(failing: FailingStore, hasty: Writer) -> None:
    failing.is_open.clear()
    here: list[object] = []
    thread = threading.Thread(target=lambda: here.append(hasty.run_here(CLAIM)))
    thread.start()
    until(hasty._turn.locked)
    outcomes = submit(hasty, 1)
    assert hasty.run_here(CLAIM) is None
    failing.is_open.set()
    thread.join()
    until(lambda: len(outcomes) == 1)
    assert failing.done == ["here", "job-0"]
    assert here == [["here"]]


def test_after_a_slow_command_the_thread_runs_them_for_a_while(moments: Moments, hasty: Writer) -> None:
    hasty._pace.note(pace.MOMENT_SECONDS + 1)
    assert hasty.run_here(CLAIM) is None
    moments.now += pace.CALM - 0.1
    assert hasty.run_here(CLAIM) is None
    moments.now += 0.2
    assert hasty.run_here(CLAIM) == ["here"]
    hasty._pace.note(pace.MOMENT_SECONDS)
    assert hasty.run_here(CLAIM) == ["here"], "that is quick enough"


def test_slow_batches_in_the_thread_do_not_add_up(moments: Moments, hasty: Writer) -> None:
    for _ in range(1_000):  # as under load, when a batch has hundreds of commands
        hasty._pace.note(pace.MOMENT_SECONDS + 0.01)
        moments.now += 0.01
    assert hasty.run_here(CLAIM) is None
    moments.now += pace.CALM * 0.01
    assert hasty.run_here(CLAIM) == ["here"]


def test_the_time_of_a_commit_counts_in_either_thread(hasty: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[float] = []
    monkeypatch.setattr(hasty._pace, "note", noted.append)
    hasty.run_here(CLAIM)
    outcomes = submit(hasty, 1)
    until(lambda: len(outcomes) == 1)
    assert noted == [COMMIT_SECONDS] * 2


def test_blocked_commands_go_to_the_thread_and_faults_reach_the_caller(failing: FailingStore, hasty: Writer) -> None:
    failing.faults = [
        Unreachable("another process writes", reason="busy"),
        TryAgain(Unreachable("it is away", reason="io")),
    ]
    assert [hasty.run_here(CLAIM), hasty.run_here(CLAIM)] == [None, None]
    failing.faults = [ZeroDivisionError()]
    assert hasty.run_here(CLAIM) is None, "the thread finds the command with the bug"
    failing.faults = [Unreachable("whether it was done is not known", reason="io")]
    with pytest.raises(Unreachable, match="not known"):
        hasty.run_here(CLAIM)
    assert failing.done == []
    assert hasty.run_here(CLAIM) == ["here"]


def test_a_closed_writer_runs_nothing(failing: FailingStore, hasty: Writer) -> None:
    hasty.close()
    assert hasty.run_here(CLAIM) is None
    assert failing.done == []
