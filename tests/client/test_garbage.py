"""Calls leave no reference cycles behind: what is not in one is freed at once, without the garbage collector."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import octostore
from octostore.stores.sqlite.backend import SqliteBackend
from octostore.stores.store import LocalStore
from tests.support.served import ServedStore

CALLS = 20


@contextmanager
def no_garbage(of: str = "octostore.") -> Iterator[None]:
    """Check that the collector finds no new objects of these modules in cycles afterwards."""
    gc.collect()
    gc.freeze()  # a store of an earlier test may die only now, when its last thread ends: it is not looked at
    was_enabled = gc.isenabled()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        found = Counter(type(one).__qualname__ for one in gc.garbage if type(one).__module__.startswith(of))
        assert not found
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        if was_enabled:
            gc.enable()


def call(store: octostore.OctoStore) -> None:
    held = store.claim_job("job", owner="ann")
    store.heartbeat_job("job", str(held.lease_id))
    store.release_job("job", str(held.lease_id))
    store.enqueue(kind="k")
    task = store.claim_next(owner="ann")
    assert store.claim_next(owner="bob").status == "empty"
    store.release_job(str(task.job_id), str(task.lease_id), outcome="done")
    store.batch([{"command": "claim_job", "job_id": "other", "owner": "ann"}])
    store.get_job_owner("other")


async def call_async(store: octostore.AsyncOctoStore) -> None:
    held = await store.claim_job("job", owner="ann")
    await store.heartbeat_job("job", str(held.lease_id))
    await store.release_job("job", str(held.lease_id))
    await store.enqueue(kind="k")
    task = await store.claim_next(owner="ann")
    assert (await store.claim_next(owner="bob")).status == "empty"
    await store.release_job(str(task.job_id), str(task.lease_id), outcome="done")
    await store.batch([{"command": "claim_job", "job_id": "other", "owner": "ann"}])
    await store.get_job_owner("other")


class Address(NamedTuple):
    url: str
    token: str | None = None


@contextmanager
def served_file(folder: Path) -> Iterator[Address]:
    store = LocalStore(lambda: SqliteBackend(folder / "store.db"))
    store.create()
    served = ServedStore(store, folder)
    yield Address(served.url, served.token)
    served.stop()


@pytest.fixture(params=["file", "server"])
def address(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Address]:
    if request.param == "file":
        yield Address(f"sqlite:///{tmp_path / 'store.db'}")
        return
    with served_file(tmp_path) as address:
        yield address


def test_holds_and_workers(address: Address) -> None:
    with octostore.connect(address.url, token=address.token) as store:

        def work(prefix: str) -> None:
            store.enqueue_many({"kind": "k", "job_id": f"{prefix}-{number}"} for number in range(CALLS))
            store.work("default", lambda claim: claim.progress("half", percent=50), concurrency=2, until_empty=True)
            for _ in range(CALLS):
                with store.hold("held") as claim:
                    claim.checkpoint({"step": 1})

        work("first")
        with no_garbage():
            work("second")


def test_async_holds_and_workers(address: Address) -> None:
    async def handle(claim: octostore.AsyncHeldClaim) -> None:
        await claim.progress("half", percent=50)

    async def work(store: octostore.AsyncOctoStore, prefix: str) -> None:
        await store.enqueue_many({"kind": "k", "job_id": f"{prefix}-{number}"} for number in range(CALLS))
        await store.work("default", handle, concurrency=2, until_empty=True)
        for _ in range(CALLS):
            async with store.hold("held") as claim:
                await claim.checkpoint({"step": 1})

    async def run() -> None:
        async with await octostore.connect_async(address.url, token=address.token) as store:
            await work(store, "first")
            with no_garbage():
                await work(store, "second")

    asyncio.run(run())


def test_calls(address: Address) -> None:
    with octostore.connect(address.url, token=address.token) as store:
        call(store)  # what is created once and kept
        with no_garbage():
            for _ in range(CALLS):
                call(store)


def test_refused_calls_on_a_server(tmp_path: Path) -> None:
    with served_file(tmp_path) as address, octostore.connect(address.url, token=address.token) as store:
        lease_id = str(store.claim_job("job", owner="ann").lease_id)
        store.release_job("job", lease_id)

        def call_late() -> None:
            with suppress(octostore.LeaseLost):
                store.heartbeat_job("job", lease_id)

        call_late()
        with no_garbage(of="octostore.server."):
            for _ in range(CALLS):
                call_late()


def test_async_calls(address: Address) -> None:
    async def run() -> None:
        async with await octostore.connect_async(address.url, token=address.token) as store:
            await call_async(store)
            with no_garbage():
                for _ in range(CALLS):
                    await call_async(store)

    asyncio.run(run())
