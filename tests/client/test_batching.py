"""Batches that take several calls or steps: replies from before a fault are returned all the same."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import octostore
from octostore.client.async_embedded import AsyncEmbeddedPort
from octostore.client.batching import run_batch, run_batch_async
from octostore.client.embedded import EmbeddedPort
from octostore.core.commands import Batch, ClaimJob, Command, Probe
from octostore.core.errors import LeaseLost, Unreachable
from octostore.core.limits import BATCH_MAX
from octostore.stores.memory import MemoryBackend
from octostore.stores.sqlite.backend import SqliteBackend
from octostore.stores.sqlite.connection import connect
from octostore.stores.store import LocalStore
from tests.support.processes import until

GONE = Unreachable("gone", reason="network")
LOST = LeaseLost("job-0", "it has ended")


def batch_of(count: int) -> Batch:
    return Batch([ClaimJob(job_id=f"job-{number}", owner="me") for number in range(count)], atomic=count <= BATCH_MAX)


def run_on_port(replies: list[list[Any]], batch: Batch, *, is_async: bool) -> list[Any]:
    """Run `batch` on a port whose calls return `replies`, one after the other."""
    calls = iter(replies)

    def execute_all(_commands: Sequence[Command[Any]], *, atomic: bool) -> list[Any]:
        assert atomic == (len(batch.commands) <= BATCH_MAX)
        return next(calls)

    async def execute_all_async(commands: Sequence[Command[Any]], *, atomic: bool) -> list[Any]:
        return execute_all(commands, atomic=atomic)

    if is_async:
        port: Any = SimpleNamespace(execute_all=execute_all_async, undo_claims=len)
        return asyncio.run(run_batch_async(port, batch))
    return run_batch(cast("Any", SimpleNamespace(execute_all=execute_all)), batch)


@pytest.mark.parametrize("is_async", [False, True])
def test_earlier_replies_are_returned_when_a_later_call_fails(is_async: bool) -> None:
    replies = ["claimed"] * BATCH_MAX, [GONE] * 2
    assert run_on_port(list(replies), batch_of(BATCH_MAX + 2), is_async=is_async) == [*replies[0], *replies[1]]
    with pytest.raises(Unreachable):
        run_on_port([[GONE] * 2], batch_of(2), is_async=is_async)


class InterruptedPort(EmbeddedPort):
    """Ctrl-C arrives in its second call."""

    calls = 0

    def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        self.calls += 1
        if self.calls == 2:
            raise KeyboardInterrupt
        return super().execute_all(commands, atomic=atomic)


def test_the_claims_of_earlier_calls_are_undone_when_a_later_one_is_interrupted() -> None:
    port = InterruptedPort(LocalStore(MemoryBackend))
    with pytest.raises(KeyboardInterrupt):
        run_batch(port, batch_of(BATCH_MAX + 2))
    assert octostore.OctoStore(port).list_claimed_jobs("job-") == []
    port.close()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_repeated_command_that_fails_does_not_affect_the_others(is_async: bool) -> None:
    assert run_on_port([[LOST, "claimed"], [GONE]], batch_of(2), is_async=is_async) == [GONE, "claimed"]


STEPS = 250
"""Jobs that take three steps, and fit into one transaction."""


def test_steps_share_a_transaction(tmp_path: Path) -> None:
    sizes: list[int] = []
    path = tmp_path / "store.db"
    local = LocalStore(lambda: SqliteBackend(path), on_batch=lambda size, _seconds: sizes.append(size))
    local.create()
    blocker = connect(path)
    blocker.execute("BEGIN IMMEDIATE")  # until all steps have been submitted
    with octostore.OctoStore(EmbeddedPort(local)) as store, ThreadPoolExecutor() as threads:
        replies = threads.submit(store.enqueue_many, [{"kind": "k"}] * STEPS)
        until(lambda: local.engine.writer._unfinished == len(Batch([Probe()] * STEPS, atomic=False).steps))
        blocker.execute("ROLLBACK")
        assert all(reply.created for reply in replies.result())
    blocker.close()
    assert len(sizes) <= 2, "the first transaction may have begun before the second step arrived"
    assert sum(sizes) == STEPS


def test_steps_of_one_turn_of_a_loop_are_one_transaction(tmp_path: Path) -> None:
    sizes: list[int] = []
    local = LocalStore(lambda: SqliteBackend(tmp_path / "store.db"), on_batch=lambda size, _seconds: sizes.append(size))

    async def enqueue() -> list[Any]:
        async with octostore.AsyncOctoStore(AsyncEmbeddedPort(local)) as store:
            return await store.enqueue_many([{"kind": "k"}] * STEPS)

    assert all(reply.created for reply in asyncio.run(enqueue()))
    assert sizes == [STEPS]
