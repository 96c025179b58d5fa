"""Bulk changes of dead jobs: 2,000 at once while workers run, and with a server that is killed halfway."""

import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

import octostore
from octostore.client.http import port as http_port
from octostore.core.limits import BATCH_MAX
from tests.support.processes import free_port, until
from tests.support.server import ServerProcess
from tests.support.soundness import assert_sound

WORKERS = 2


def kill_jobs(store: octostore.OctoStore, number: int, queue: str) -> list[str]:
    """Make dead jobs that a single failure makes dead again."""
    names = [f"{queue}-{place:04}" for place in range(number)]
    store.enqueue_many([{"kind": "build", "job_id": name} for name in names], queue=queue, max_attempts=1)
    for start in range(0, number, BATCH_MAX):
        store.batch([{"command": "cancel_job", "job_id": name} for name in names[start : start + BATCH_MAX]])
    return names


def events(store: octostore.OctoStore, names: list[str], event_type: str) -> Counter[str | None]:
    return Counter(event.job_id for event in store.events(prefix=names[0][:-4]) if event.type == event_type)


def test_each_of_2000_jobs_is_requeued_once_while_workers_fail_them(server: ServerProcess) -> None:
    """Jobs that fail are dead again before the next batch, which starts after their names."""
    stop = threading.Event()
    failed: list[str] = []

    def fail(claim: octostore.HeldClaim) -> None:
        failed.append(claim.job_id)
        raise octostore.Failed("no")

    def work() -> None:
        with octostore.connect(server.url, token=server.token) as own:
            own.work("many", fail, stop=stop)

    with octostore.connect(server.url, token=server.token) as store, ExitStack() as at_end:
        names = kill_jobs(store, 2_000, "many")
        workers = [threading.Thread(target=work) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
            at_end.callback(worker.join)
        at_end.callback(stop.set)
        progress: list[int] = []

        def go_on_once_some_have_failed(number: int) -> None:
            progress.append(number)
            until(lambda: len(failed) >= number // 100)

        assert store.requeue_matching(queue="many", reason="fixed", on_batch=go_on_once_some_have_failed) == 2_000
        assert progress == list(range(100, 2_001, 100))
        at_end.close()
        assert events(store, names, "requeued") == Counter(names)
        assert events(store, names, "failed") == Counter(failed)
        assert {job.job_id for job in store.dead_jobs("many-")} == set(failed)


def test_a_second_call_finishes_after_a_server_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "GIVE_UP_SECONDS", 0.2)
    port, progress = free_port(), list[int]()
    with ServerProcess(tmp_path, port=port) as server:
        store = octostore.connect(server.url, token=server.token)
        names = kill_jobs(store, 450, "some")

        def kill_it(number: int) -> None:
            progress.append(number)
            if number == 200:
                server.kill()

        with pytest.raises(octostore.Unreachable):
            store.discard_matching(prefix="some-", reason="not needed", on_batch=kill_it)
    monkeypatch.undo()
    with ServerProcess(tmp_path, port=port):
        assert len(store.dead_jobs("some-")) == 250
        assert store.discard_matching(prefix="some-", reason="not needed", on_batch=progress.append) == 250
        assert progress == [100, 200, 100, 200, 250]
        assert events(store, names, "discarded") == Counter(names)
        store.close()
    assert_sound(tmp_path / "octostore.db")
