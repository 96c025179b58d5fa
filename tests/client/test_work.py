"""A worker settles a job and claims the next in one transaction, and keeps no claim that it will not work on."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

import octostore
from octostore.client import async_work, work
from octostore.client.async_embedded import AsyncEmbeddedPort
from octostore.client.daemon_thread import run_in_daemon_thread
from octostore.client.embedded import EmbeddedPort
from octostore.core.commands import AnyCommand, Command
from octostore.stores.store import LocalStore, open_store
from octostore.stores.writer import Done
from tests.support.processes import until

JOBS = 5


class Batches:
    """How many commands were in each transaction."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def note(self, size: int, _seconds: float) -> None:
        self.sizes.append(size)


@pytest.fixture
def batches() -> Batches:
    return Batches()


@pytest.fixture
def local(batches: Batches) -> Iterator[LocalStore]:
    store = open_store("memory:", on_batch=batches.note)
    yield store
    store.close()


class HookedPort(EmbeddedPort):
    """Calls `after` when several commands were executed together, before their replies are returned."""

    def __init__(self, store: LocalStore, after: Callable[[], None] = lambda: None) -> None:
        super().__init__(store)
        self.after = after

    def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        replies = super().execute_all(commands, atomic=atomic)
        if len(commands) > 1:
            self.after()
        return replies


class DelayedReplies:
    """Replies to commands that are executed together are delivered on request."""

    def __init__(self, store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_executed = asyncio.Event()
        self.deliver: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._submit_to = store.submit_to
        monkeypatch.setattr(store, "submit_to", self._submit)

    def _submit(self, commands: Sequence[AnyCommand], done: Done) -> None:
        self._submit_to(commands, done if len(commands) == 1 else partial(self._hold_back, done))

    def _hold_back(self, done: Done, outcome: list[Any] | Exception) -> None:
        self.deliver = partial(done, outcome)
        self._loop.call_soon_threadsafe(self.has_executed.set)


def store_with_jobs(local: LocalStore) -> octostore.OctoStore:
    store = octostore.OctoStore(EmbeddedPort(local))
    for number in range(JOBS):
        store.enqueue("letter", job_id=f"job-{number}")
    return store


def statuses(store: octostore.OctoStore) -> list[str]:
    return [store.get_job(f"job-{number}").status for number in range(JOBS)]


def test_each_job_takes_one_transaction(local: LocalStore, batches: Batches) -> None:
    store = store_with_jobs(local)
    batches.sizes.clear()
    assert store.work("default", lambda claim: claim.job_id, until_empty=True) == JOBS
    # The first claim, each settle with the next claim, and a last claim that finds the queue empty.
    assert batches.sizes == [1, *[2] * JOBS, 1]
    assert statuses(store) == ["done"] * JOBS
    moments = {event.at for event in store.events() if event.job_id == "job-1" and event.type == "claimed"}
    assert moments == {event.at for event in store.events() if event.job_id == "job-0" and event.type == "done"}


def test_each_job_of_a_coroutine_takes_one_transaction_too(local: LocalStore, batches: Batches) -> None:
    store = store_with_jobs(local)
    batches.sizes.clear()

    async def work() -> int:
        async def handler(claim: octostore.AsyncHeldClaim) -> str:
            return claim.job_id

        return await octostore.AsyncOctoStore(AsyncEmbeddedPort(local)).work("default", handler, until_empty=True)

    assert asyncio.run(work()) == JOBS
    assert batches.sizes == [1, *[2] * JOBS, 1]
    assert statuses(store) == ["done"] * JOBS


def test_a_worker_that_must_stop_claims_no_more(local: LocalStore) -> None:
    store = store_with_jobs(local)
    stop = threading.Event()
    assert store.work("default", lambda _: stop.set(), stop=stop) == 1
    assert statuses(store) == ["done", *["queued"] * (JOBS - 1)]
    assert sum(event.type == "claimed" for event in store.events()) == 1


def test_a_worker_that_must_stop_releases_the_job_it_just_claimed(local: LocalStore) -> None:
    store = store_with_jobs(local)
    stop = threading.Event()
    working = octostore.OctoStore(HookedPort(local, after=stop.set))
    assert working.work("default", lambda _: None, stop=stop) == 1
    assert statuses(store) == ["done", *["queued"] * (JOBS - 1)]
    last = list(store.events())[-1]
    assert (last.type, last.job_id) == ("released", "job-1")
    assert store.get_job("job-1").attempts == 0


def test_if_not_all_workers_can_start_none_continues(local: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could stop those that did."""
    store = store_with_jobs(local)
    started: list[Future[Any]] = []

    def start_two(call: Callable[[], Any], name: str) -> "Future[Any]":
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(run_in_daemon_thread(call, name))
        return started[-1]

    monkeypatch.setattr(work, "run_in_daemon_thread", start_two)
    with pytest.raises(RuntimeError, match="can't start"):
        store.work("default", lambda _: None, concurrency=3)
    assert [worker.done() for worker in started] == [True, True]


def failing_twice(call: Any) -> Any:
    left = [octostore.Unreachable("no route to host", reason="network") for _ in range(2)]

    def failing(*arguments: Any) -> Any:
        if left:
            raise left.pop()
        return call(*arguments)

    return failing


@pytest.mark.parametrize("is_async", [False, True])
def test_a_worker_says_that_the_store_cannot_be_reached(
    local: LocalStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    """Once, and when it can be reached again. Otherwise the worker would look as if it had nothing to do."""
    store = store_with_jobs(local)
    for module in (work, async_work):
        monkeypatch.setattr(module, "UNREACHABLE_PAUSE_SECONDS", 0.01)
    if is_async:
        port: Any = AsyncEmbeddedPort(local)
        monkeypatch.setattr(port, "execute", failing_twice(port.execute))
        assert asyncio.run(octostore.AsyncOctoStore(port).work("default", lambda _: None, until_done=True)) == JOBS
    else:
        port = EmbeddedPort(local)
        monkeypatch.setattr(port, "execute", failing_twice(port.execute))
        assert octostore.OctoStore(port).work("default", lambda _: None, until_done=True) == JOBS
    assert statuses(store) == ["done"] * JOBS
    assert [record.getMessage() for record in caplog.records if record.name == "octostore.work"] == [
        "no route to host; retrying until the store can be reached",
        "the store can be reached again",
    ]


def test_a_lost_lease_does_not_lose_the_next_job(local: LocalStore) -> None:
    store = store_with_jobs(local)
    victims = ["job-0"]

    def handler(claim: octostore.HeldClaim) -> None:
        if claim.job_id in victims:
            victims.remove(claim.job_id)
            store.force_release(claim.job_id)

    assert store.work("default", handler, until_empty=True) == JOBS + 1
    assert statuses(store) == ["done"] * JOBS


def test_a_task_that_is_cancelled_while_it_settles_releases_the_next_job(
    local: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_with_jobs(local)

    async def work() -> None:
        async def handler(_: octostore.AsyncHeldClaim) -> None:
            pass

        replies = DelayedReplies(local, monkeypatch)
        working = asyncio.create_task(octostore.AsyncOctoStore(AsyncEmbeddedPort(local)).work("default", handler))
        await replies.has_executed.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert statuses(store)[:2] == ["done", "claimed"]
        replies.deliver()
        await asyncio.to_thread(until, lambda: statuses(store)[1] == "queued")

    asyncio.run(work())
    assert statuses(store) == ["done", *["queued"] * (JOBS - 1)]


@pytest.mark.parametrize("raised", [RuntimeError("interrupted"), SystemExit(1), asyncio.CancelledError()])
def test_a_handler_that_takes_too_long_is_asked_to_stop_and_its_job_fails(
    local: LocalStore, raised: BaseException
) -> None:
    store = octostore.OctoStore(EmbeddedPort(local))
    store.enqueue("slow", job_id="job", max_attempts=1)

    def handler(claim: octostore.HeldClaim) -> None:
        assert claim.stop_requested.wait(30)
        raise raised

    assert store.work("default", handler, max_run=0.01, until_empty=True) == 1
    assert store.get_job("job").error == "still running after 0.01 s (max_run)"


def test_a_handler_that_does_not_stop_loses_its_job(local: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "STOP_GRACE_SECONDS", 0.01)
    store = octostore.OctoStore(EmbeddedPort(local))
    store.enqueue("stuck", job_id="job", max_attempts=1)

    def handler(claim: octostore.HeldClaim) -> str:
        assert claim.lost.wait(30)
        until(lambda: store.get_job("job").status == "dead")
        return "too late"

    assert store.work("default", handler, max_run=0.01, until_empty=True) == 1
    job = store.get_job("job")
    assert (job.error, job.result) == ("still running after 0.01 s (max_run)", None)


def test_a_handler_within_max_run_is_not_asked_to_stop(local: LocalStore) -> None:
    store = store_with_jobs(local)
    stopped: list[bool] = []
    store.work("default", lambda claim: stopped.append(claim.is_to_stop), max_run=60, until_empty=True)
    assert stopped == [False] * JOBS
    with pytest.raises(octostore.InvalidInput, match="max_run"):
        store.work("default", print, max_run=-1)
    with pytest.raises(octostore.InvalidInput, match="is 0, which would stop every job; leave it out for no limit"):
        store.work("default", print, max_run=0)


def test_a_coroutine_that_takes_too_long_is_cancelled(local: LocalStore) -> None:
    async def run() -> None:
        store = octostore.AsyncOctoStore(AsyncEmbeddedPort(local))
        await store.enqueue("slow", job_id="job", max_attempts=1)

        async def handler(_claim: octostore.AsyncHeldClaim) -> None:
            await asyncio.Event().wait()

        assert await store.work("default", handler, max_run=0.01, until_empty=True) == 1
        assert (await store.get_job("job")).error == "still running after 0.01 s (max_run)"

    asyncio.run(run())


def test_a_handlers_own_timeout_is_not_mistaken_for_max_run(local: LocalStore) -> None:
    async def run() -> None:
        store = octostore.AsyncOctoStore(AsyncEmbeddedPort(local))
        await store.enqueue("slow", job_id="job", max_attempts=1)

        async def handler(_claim: octostore.AsyncHeldClaim) -> None:
            raise TimeoutError("the printer")

        await store.work("default", handler, max_run=60, until_empty=True)
        assert (await store.get_job("job")).error == "TimeoutError: the printer"

    asyncio.run(run())


def test_a_plain_function_works_in_asyncio_too(local: LocalStore) -> None:
    async def run() -> None:
        store = octostore.AsyncOctoStore(AsyncEmbeddedPort(local))
        await store.enqueue("double", 21, job_id="job")
        assert await store.work("default", lambda claim: claim.payload * 2, until_empty=True) == 1
        assert (await store.get_job("job")).result == 42

    asyncio.run(run())


def test_a_coroutine_function_is_refused_where_nothing_awaits_it(local: LocalStore) -> None:
    async def handler(_claim: object) -> None: ...

    store = store_with_jobs(local)
    for argument in (handler, {"letter": handler}):
        with pytest.raises(octostore.InvalidInput, match="must be a plain function"):
            store.work("default", argument)
    assert store.queue_status("default").ready == JOBS
