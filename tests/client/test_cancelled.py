"""A claim whose caller is gone is undone: no owner may exist that does not know it is one."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import octostore
from octostore.client.async_embedded import AsyncEmbeddedPort
from octostore.client.embedded import EmbeddedPort
from octostore.client.threads import MAX_THREADS, in_background, in_thread
from octostore.core.commands import AnyCommand, ReleaseJob
from octostore.core.questions import GetJob
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.sqlite.connection import connect
from octostore.stores.store import LocalStore
from octostore.stores.writer import Done
from tests.support.processes import PATIENCE_SECONDS, until


def test_a_cancelled_claim_is_undone(tmp_path: Path) -> None:
    """A real transaction keeps the writer busy, so that the task is cancelled before it gets its reply."""
    path = tmp_path / "store.db"
    local = LocalStore(lambda: SqliteBackend(path))
    local.create()
    blocker = connect(path)

    async def main() -> list[str]:
        store = octostore.AsyncOctoStore(AsyncEmbeddedPort(local))
        blocker.execute("BEGIN IMMEDIATE")
        task = asyncio.create_task(store.claim_job("job", owner="gone"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        blocker.execute("ROLLBACK")
        follower = store.events(follow=True)
        return [(await anext(follower)).type for _ in range(2)]

    assert asyncio.run(main()) == ["claimed", "undone"]
    local.close()
    blocker.close()


def test_a_claim_that_is_cancelled_after_its_reply_arrived_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply was delivered, but the task has not run since."""
    local = LocalStore(lambda: SqliteBackend(tmp_path / "store.db"))
    submit_to = local.submit_to

    async def main() -> list[str]:
        store = octostore.AsyncOctoStore(AsyncEmbeddedPort(local))
        loop = asyncio.get_running_loop()

        def submit_and_cancel(commands: Sequence[AnyCommand], done: Done) -> None:
            def reply_and_cancel(outcome: list[Any] | Exception) -> None:
                done(outcome)
                loop.call_soon(task.cancel)

            def in_one_turn(outcome: list[Any] | Exception) -> None:
                loop.call_soon_threadsafe(reply_and_cancel, outcome)

            submit_to(commands, in_one_turn)

        monkeypatch.setattr(local, "submit_to", submit_and_cancel)
        task = asyncio.create_task(store.claim_job("job", owner="gone"))
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        follower = store.events(follow=True)
        return [(await anext(follower)).type for _ in range(2)]

    assert asyncio.run(main()) == ["claimed", "undone"]
    local.close()


def only_once(call: Any, stuck: asyncio.Event) -> Any:
    """`call`, which never returns the second time."""
    calls: list[Any] = []

    async def called(*args: Any, **options: Any) -> Any:
        calls.append(args)
        if len(calls) > 1:
            stuck.set()
            await asyncio.Event().wait()
        return await call(*args, **options)

    return called


async def give_up(store: octostore.AsyncOctoStore, claiming: Any, stuck: asyncio.Event) -> None:
    """Cancel `claiming` at its second step and check that no claim is left."""
    task = asyncio.create_task(claiming)
    await stuck.wait()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await store.list_jobs(status="claimed")).jobs:
            pass
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await store.list_jobs(status="claimed")).jobs:
            pass


@pytest.mark.parametrize("is_atomic", [True, False])
def test_the_claims_of_earlier_steps_are_undone(tmp_path: Path, is_atomic: bool) -> None:
    async def main() -> None:
        stuck = asyncio.Event()
        local = LocalStore(lambda: SqliteBackend(tmp_path / "store.db"))
        local.create()
        port = AsyncEmbeddedPort(local)
        async with octostore.AsyncOctoStore(port) as store:
            port._loop_store.execute_all = only_once(port._loop_store.execute_all, stuck)  # type: ignore[method-assign]
            names = [f"job-{number}" for number in range(1_001 if is_atomic else 101)]
            documents = [{"command": "claim_job", "job_id": name} for name in names]
            await give_up(store, store.claim_many(names) if is_atomic else store.batch(documents, atomic=False), stuck)

    asyncio.run(main())


def test_a_claim_is_undone_even_if_the_loop_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    local = LocalStore(lambda: SqliteBackend(path))
    local.create()
    blocker = connect(path)

    async def ask_and_leave() -> None:
        store = octostore.AsyncOctoStore(AsyncEmbeddedPort(local))
        task = asyncio.create_task(store.claim_job("job", owner="gone"))
        await asyncio.sleep(0)
        del task

    blocker.execute("BEGIN IMMEDIATE")
    asyncio.run(ask_and_leave())
    blocker.execute("ROLLBACK")
    follower = octostore.OctoStore(EmbeddedPort(local)).events(follow=True)
    assert [next(follower).type for _ in range(2)] == ["claimed", "undone"]
    local.close()
    blocker.close()


def test_a_cancelled_repeat_does_not_end_the_claim_it_repeats(tmp_path: Path) -> None:
    local = LocalStore(lambda: SqliteBackend(tmp_path / "store.db"))
    local.create()
    blocker = connect(tmp_path / "store.db")

    async def main() -> None:
        store = octostore.AsyncOctoStore(AsyncEmbeddedPort(local))
        claim = await store.claim_job("job", request_id="r")
        blocker.execute("BEGIN IMMEDIATE")
        task = asyncio.create_task(store.claim_job("job", request_id="r"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        blocker.execute("ROLLBACK")
        await store.enqueue("later", job_id="later")
        await store.heartbeat_job("job", claim.lease_id or "")
        assert [event.type async for event in store.events()] == ["claimed", "enqueued"]

    asyncio.run(main())
    local.close()
    blocker.close()


def test_a_cancelled_session_is_closed(tmp_path: Path) -> None:
    local = LocalStore(lambda: SqliteBackend(tmp_path / "store.db"))
    local.create()
    blocker = connect(tmp_path / "store.db")

    async def main() -> list[str]:
        store = octostore.AsyncOctoStore(AsyncEmbeddedPort(local))
        blocker.execute("BEGIN IMMEDIATE")
        task = asyncio.create_task(store.open_session("agent"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        blocker.execute("ROLLBACK")
        follower = store.events(follow=True)
        return [(await anext(follower)).type for _ in range(2)]

    assert asyncio.run(main()) == ["session_opened", "session_undone"]
    local.close()
    blocker.close()


def test_a_hold_does_not_need_a_thread_of_the_loop(tmp_path: Path) -> None:
    """All of the loop's threads are busy for longer than the TTL."""
    finish = threading.Event()

    async def main() -> None:
        busy = [asyncio.create_task(asyncio.to_thread(finish.wait, 30)) for _ in range(64)]
        async with await octostore.connect_async(f"sqlite:///{tmp_path}/store.db") as store:
            async with store.hold("job", ttl=5) as claim:
                await claim.progress("working")
                await claim.checkpoint({"step": 1})
                assert (await store.get_job("job")).status == "claimed"
            assert (await store.get_job("job")).status == "free"
        finish.set()
        await asyncio.gather(*busy)

    asyncio.run(main())


def test_a_loop_that_ends_while_a_task_waits_does_not_stop_the_store(tmp_path: Path) -> None:
    local = LocalStore(lambda: SqliteBackend(tmp_path / "store.db"))

    async def wait_and_give_up() -> None:
        store = octostore.AsyncOctoStore(AsyncEmbeddedPort(local))
        await store.claim_job("job")
        follower = store.events(follow=True)
        await anext(follower)
        task = asyncio.create_task(store.claim_job("job", wait=30))
        await asyncio.sleep(0)
        del task, follower

    for _ in range(20):
        asyncio.run(wait_and_give_up())
        octostore.OctoStore(EmbeddedPort(local)).force_release("job")
    local.close()


def test_a_cancelled_waiter_leaves_no_claim(tmp_path: Path) -> None:
    async def main() -> None:
        async with await octostore.connect_async(f"sqlite:///{tmp_path}/store.db") as store:
            held = await store.claim_job("job")
            waiter = asyncio.create_task(store.claim_job("job", wait=30))
            await asyncio.sleep(0.05)
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
            await store.release_job("job", held.lease_id or "")
            assert (await store.get_job("job")).status == "free"

    asyncio.run(main())


def test_a_cancelled_hold_releases_the_job(tmp_path: Path) -> None:
    async def main() -> None:
        async with await octostore.connect_async(f"sqlite:///{tmp_path}/store.db") as store:
            entered = asyncio.Event()

            async def work() -> None:
                async with store.hold("job"):
                    entered.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(work())
            await entered.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            job = await store.get_job("job")
            assert (job.status, job.last_outcome) == ("free", "released")

    asyncio.run(main())


def test_a_hold_that_is_cancelled_while_the_store_fails_releases_the_job_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = LocalStore(lambda: SqliteBackend(tmp_path / "store.db"))
    submit_to = local.submit_to
    without_reply: list[Done] = []

    def fail_once(commands: Sequence[AnyCommand], done: Done) -> None:
        if isinstance(commands[0], ReleaseJob) and not without_reply:
            without_reply.append(done)
        else:
            submit_to(commands, done)

    async def main() -> None:
        store = octostore.AsyncOctoStore(AsyncEmbeddedPort(local))

        async def work() -> None:
            async with store.hold("job"):
                pass

        monkeypatch.setattr(local, "submit_to", fail_once)
        task = asyncio.create_task(work())
        await asyncio.to_thread(until, lambda: bool(without_reply))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        without_reply[0](octostore.Unreachable("the disk is full", reason="disk_full"))
        await asyncio.to_thread(until, lambda: local.ask(GetJob(job_id="job")).status == "free")

    asyncio.run(main())
    local.close()


def test_blocks_that_cannot_be_settled_do_not_delay_other_calls() -> None:
    """They may retry for as long as their leases last."""
    finish = threading.Event()

    async def main() -> None:
        settling = [in_background(finish.wait) for _ in range(MAX_THREADS)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await in_thread(finish.set)
        assert all(one.result(PATIENCE_SECONDS) for one in settling)

    try:
        asyncio.run(main())
    finally:
        finish.set()


def test_a_block_that_cannot_be_settled_does_not_keep_its_process_from_ending() -> None:
    """A person who pressed Ctrl-C twice wants to leave."""
    program = """
        import threading, time
        from octostore.client import threads

        def settle(seconds):
            time.sleep(seconds)
            print(seconds)

        threads.EXIT_SECONDS = 1.0
        threads.in_background(settle, 0.2)
        threads.in_background(settle, 600)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    assert subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=True).stdout == b"0.2\n"


def test_on_lost_reaches_the_loop_and_the_callback(tmp_path: Path) -> None:
    called = threading.Event()

    async def main() -> None:
        async with (
            await octostore.connect_async(f"sqlite:///{tmp_path}/store.db") as store,
            store.hold("job", ttl=5, on_lost=called.set) as claim,
        ):
            await store.force_release("job")
            await asyncio.wait_for(claim.lost.wait(), 10)
            assert claim.remaining() == 0

    with pytest.raises(octostore.LeaseLost) as caught:
        asyncio.run(main())
    assert caught.value.ended is not None
    assert caught.value.ended.how == "force_released"
    assert called.wait(timeout=10)
