"""A worker settles a job and claims the next in one transaction, and claims nothing that nobody will work on."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

import octostore
from octostore.client.async_embedded import AsyncEmbeddedPort
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
    """`after` is called when something was executed together, before anybody hears of it."""

    def __init__(self, store: LocalStore, after: Callable[[], None] = lambda: None) -> None:
        super().__init__(store)
        self.after = after

    def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        answers = super().execute_all(commands, atomic=atomic)
        if len(commands) > 1:
            self.after()
        return answers


class HeldBack:
    """What is executed together is answered when somebody says so."""

    def __init__(self, store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_executed = asyncio.Event()
        self.tell: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._submit_to = store.submit_to
        monkeypatch.setattr(store, "submit_to", self._submit)

    def _submit(self, commands: Sequence[AnyCommand], done: Done) -> None:
        self._submit_to(commands, done if len(commands) == 1 else partial(self._hold_back, done))

    def _hold_back(self, done: Done, outcome: list[Any] | Exception) -> None:
        self.tell = partial(done, outcome)
        self._loop.call_soon_threadsafe(self.has_executed.set)


def filled(local: LocalStore) -> octostore.OctoStore:
    store = octostore.OctoStore(EmbeddedPort(local))
    for number in range(JOBS):
        store.enqueue("letter", job_id=f"job-{number}")
    return store


def statuses(store: octostore.OctoStore) -> list[str]:
    return [store.get_job(f"job-{number}").status for number in range(JOBS)]


def test_each_job_takes_one_transaction(local: LocalStore, batches: Batches) -> None:
    store = filled(local)
    batches.sizes.clear()
    assert store.work("default", lambda claim: claim.job_id, until_empty=True) == JOBS
    # The first claim, each end with the next claim, and that there really is nothing left.
    assert batches.sizes == [1, *[2] * JOBS, 1]
    assert statuses(store) == ["done"] * JOBS
    moments = {event.at for event in store.events() if event.job_id == "job-1" and event.type == "claimed"}
    assert moments == {event.at for event in store.events() if event.job_id == "job-0" and event.type == "done"}


def test_a_coroutine_s_too(local: LocalStore, batches: Batches) -> None:
    store = filled(local)
    batches.sizes.clear()

    async def work() -> int:
        async def handler(claim: octostore.AsyncHeldClaim) -> str:
            return claim.job_id

        return await octostore.AsyncOctoStore(AsyncEmbeddedPort(local)).work("default", handler, until_empty=True)

    assert asyncio.run(work()) == JOBS
    assert batches.sizes == [1, *[2] * JOBS, 1]
    assert statuses(store) == ["done"] * JOBS


def test_whoever_is_told_to_stop_claims_no_more(local: LocalStore) -> None:
    store = filled(local)
    stop = threading.Event()
    assert store.work("default", lambda _: stop.set(), stop=stop) == 1
    assert statuses(store) == ["done", *["queued"] * (JOBS - 1)]
    assert sum(event.type == "claimed" for event in store.events()) == 1


def test_what_was_claimed_when_it_was_told_to_stop_is_given_back(local: LocalStore) -> None:
    store = filled(local)
    stop = threading.Event()
    working = octostore.OctoStore(HookedPort(local, after=stop.set))
    assert working.work("default", lambda _: None, stop=stop) == 1
    assert statuses(store) == ["done", *["queued"] * (JOBS - 1)]
    last = list(store.events())[-1]
    assert (last.type, last.job_id) == ("released", "job-1")
    assert store.get_job("job-1").attempts == 0


def test_a_lost_lease_does_not_lose_the_next_job(local: LocalStore) -> None:
    store = filled(local)
    victims = ["job-0"]

    def handler(claim: octostore.HeldClaim) -> None:
        if claim.job_id in victims:
            victims.remove(claim.job_id)
            store.force_release(claim.job_id)

    assert store.work("default", handler, until_empty=True) == JOBS + 1
    assert statuses(store) == ["done"] * JOBS


def test_a_task_that_is_cancelled_while_it_settles_gives_back_what_came_with_it(
    local: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(local)

    async def work() -> None:
        async def handler(_: octostore.AsyncHeldClaim) -> None:
            pass

        answers = HeldBack(local, monkeypatch)
        working = asyncio.create_task(octostore.AsyncOctoStore(AsyncEmbeddedPort(local)).work("default", handler))
        await answers.has_executed.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert statuses(store)[:2] == ["done", "claimed"]
        answers.tell()
        await asyncio.to_thread(until, lambda: statuses(store)[1] == "queued")

    asyncio.run(work())
    assert statuses(store) == ["done", *["queued"] * (JOBS - 1)]
