"""Signals to a program that calls `work()`: the first drains it, the second stops it, and no job loses an attempt."""

from pathlib import Path
from signal import SIGINT, SIGSTOP, SIGTERM, Signals

import pytest

import octostore
from tests.support.processes import Worker, until
from tests.support.server import ServerProcess

KINDS = ["sync", "async"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "over").mkdir()
    return tmp_path / "over"


def working(
    store: octostore.OctoStore, path: Path, folder: Path, kind: str, how: str = "heeding", *, concurrency: int = 1
) -> Worker:
    for job_id in ("first", "second"):
        store.enqueue("kind", job_id=job_id, max_attempts=1)
    return Worker("drained", f"sqlite:///{path}", folder, kind, how, concurrency)


def types_of(store: octostore.OctoStore, job_id: str) -> list[str]:
    return [event.type for event in store.events(job_id=job_id)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
def test_the_first_signal_lets_the_current_job_finish(
    store: octostore.OctoStore, path: Path, folder: Path, kind: str, number: Signals
) -> None:
    with working(store, path, folder, kind) as worker:
        assert worker.hear() == {"at": "first"}
        worker.signal(number)
        assert worker.hear() == {"draining": "first"}
        (folder / "first").touch()
        assert worker.rest() == [{"handled": 1, "restored": True}]
        assert worker.exit_code() == 0
    assert (store.get_job("first").result, types_of(store, "second")) == ("whole", ["enqueued"])


@pytest.mark.parametrize("worked", [("sync", "heeding", "deferred"), ("async", "deaf", "released")])
@pytest.mark.parametrize("stopped", [(SIGTERM, 128 + SIGTERM), (SIGINT, -SIGINT)])
def test_the_second_signal_stops_it_and_releases_the_job(
    store: octostore.OctoStore, path: Path, folder: Path, worked: tuple[str, str, str], stopped: tuple[Signals, int]
) -> None:
    """A handler in a thread stops when it checks for a stop request; an asyncio handler is cancelled."""
    (kind, how, outcome), (number, code) = worked, stopped
    with working(store, path, folder, kind, how) as worker:
        assert worker.hear() == {"at": "first"}
        worker.signal(number)
        assert worker.hear() == {"draining": "first"}
        worker.signal(number)
        assert worker.rest() == []
        assert worker.exit_code() == code
    assert types_of(store, "first") == ["enqueued", "claimed", outcome]
    job = store.get_job("first")
    assert (job.status, job.attempts) == ("queued", 0)
    assert store.claim_next().job_id in {"first", "second"}, "at once"


def test_a_handler_that_does_not_stop_loses_its_job_and_ends_with_the_process(
    store: octostore.OctoStore, path: Path, folder: Path
) -> None:
    with working(store, path, folder, "sync", "deaf") as worker:
        assert worker.hear() == {"at": "first"}
        worker.signal(SIGTERM)
        assert worker.hear() == {"draining": "first"}
        worker.signal(SIGTERM)
        assert worker.rest() == []
        assert worker.exit_code() == 128 + SIGTERM
    assert types_of(store, "first") == ["enqueued", "claimed", "released"]
    job = store.get_job("first")
    assert (job.status, job.attempts, job.note) == ("queued", 0, "the worker was stopped by SIGTERM")


def test_a_broken_worker_can_be_stopped_while_it_waits_for_its_other_jobs(
    store: octostore.OctoStore, path: Path, folder: Path
) -> None:
    with working(store, path, folder, "sync", "breaking", concurrency=2) as worker:
        assert worker.hear() == {"at": "first"}
        assert worker.hear() == {"draining": "first"}
        worker.signal(SIGTERM)
        assert worker.rest() == []
        assert worker.exit_code() == 128 + SIGTERM
    assert types_of(store, "first") == ["enqueued", "claimed", "deferred"]
    assert types_of(store, "second") == ["enqueued", "claimed", "released"]


@pytest.mark.slow
def test_a_worker_does_not_wait_for_a_store_that_does_not_answer(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTOSTORE_HOME", str(tmp_path))
    with ServerProcess(tmp_path) as server, octostore.connect(server.url) as store:
        for _ in range(3):
            store.enqueue("kind")
        with Worker("drained", server.url, folder, "sync", "deaf", 3) as worker:
            for _ in range(3):
                assert "at" in worker.hear()
            server.process.send_signal(SIGSTOP)
            worker.signal(SIGTERM)
            assert "draining" in worker.hear()
            worker.signal(SIGTERM)
            assert worker.exit_code() == 128 + SIGTERM, "without a timeout for each job"


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_that_the_program_handles_is_left_to_it(
    store: octostore.OctoStore, path: Path, folder: Path, kind: str
) -> None:
    with working(store, path, folder, kind, "own") as worker:
        assert worker.hear() == {"at": "first"}
        worker.signal(SIGTERM)
        assert worker.hear() == {"own": "TERM"}
        (folder / "first").touch()
        assert worker.hear() == {"at": "second"}
        worker.signal(SIGINT)
        assert worker.hear() == {"draining": "second"}
        (folder / "second").touch()
        assert worker.rest() == [{"handled": 2, "restored": True}]


def test_all_loops_of_a_program_are_drained(store: octostore.OctoStore, path: Path, folder: Path) -> None:
    store.enqueue("kind", job_id="other", queue="other")
    with working(store, path, folder, "async", "twice") as worker:
        assert sorted(worker.hear()["at"] for _ in range(2)) == ["first", "other"]
        worker.signal(SIGTERM)
        assert sorted(worker.hear()["draining"] for _ in range(2)) == ["first", "other"]
        (folder / "other").touch()
        until(lambda: store.get_job("other").status == "done")
        worker.signal(SIGTERM)
        assert worker.rest() == []
        assert worker.exit_code() == 128 + SIGTERM, "the second signal stops the remaining loop"
    assert (store.get_job("first").status, store.get_job("first").attempts) == ("queued", 0)
