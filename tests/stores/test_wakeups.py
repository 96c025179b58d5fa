"""A heartbeat that shortens a claim wakes the callers in the same process that wait for the job."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from octostore.client.embedded import EmbeddedPort
from octostore.core.commands import (
    AcquireLock,
    AnyCommand,
    CheckpointJob,
    ClaimJob,
    ClaimNext,
    Enqueue,
    HeartbeatJob,
    KeepSessionAlive,
    OpenSession,
)
from octostore.core.retry import RetryPolicy
from octostore.stores.memory import MemoryBackend
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore, default_sources
from octostore.stores.wakeups import Topic
from tests.support.embedded import waiting_threads
from tests.support.processes import until
from tests.support.world import ManualClock

LONG = 3_600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[LocalStore]:
    sources = default_sources(RetryPolicy(base_ms=0, jitter=0))
    path = tmp_path / "store.db"
    store = LocalStore(
        MemoryBackend if request.param == "memory" else lambda: SqliteBackend(path), clock=clock, sources=sources
    )
    yield store
    store.close()


def do(store: LocalStore, command: AnyCommand) -> Any:
    (reply,) = store.submit([command]).result(30)
    return reply


def rings(store: LocalStore, topic: Topic, command: AnyCommand) -> bool:
    """Whether the commit of `command` itself rings: before its reply, and from the writer's thread."""
    rung_by: list[str] = []
    with store.listening([topic], lambda: rung_by.append(threading.current_thread().name)):
        do(store, command)
    return "octostore-writer" in rung_by


@pytest.mark.parametrize("ttl", [1, LONG - 1])
def test_a_heartbeat_that_shortens_a_claim_rings(store: LocalStore, ttl: float) -> None:
    lease_id = do(store, ClaimJob(job_id="job", owner="ann", ttl=LONG)).lease_id
    heartbeat = HeartbeatJob(job_id="job", lease_id=lease_id, ttl=ttl)
    assert rings(store, ("job", "job"), heartbeat)
    assert not rings(store, ("job", "job"), heartbeat), "the second one changes nothing"
    assert not rings(store, ("job", "other"), HeartbeatJob(job_id="job", lease_id=lease_id, ttl=1))


def test_every_renewal_rings_for_watchers_of_the_claim(store: LocalStore) -> None:
    claim = do(store, ClaimJob(job_id="job", owner="ann"))
    lock = AcquireLock(job_id="lock", owner="ann")
    do(store, lock)
    assert rings(store, ("renewal", "job"), HeartbeatJob(job_id="job", lease_id=claim.lease_id))
    assert rings(store, ("renewal", "lock"), lock)
    assert not rings(store, ("renewal", "job"), HeartbeatJob(job_id="job", lease_id="guessed"))
    assert not rings(store, ("renewal", "job"), lock)


def test_a_command_that_shortens_no_claim_does_not_ring(store: LocalStore, clock: ManualClock) -> None:
    lease_id = do(store, ClaimJob(job_id="job", owner="ann", ttl=60)).lease_id
    session = do(store, OpenSession(session_id="s", agent="ann", ttl=30))
    bound = do(store, ClaimJob(job_id="bound", owner="ann", session_id="s")).lease_id
    clock.advance(20)
    quiet: list[tuple[str, AnyCommand]] = [
        ("job", HeartbeatJob(job_id="job", lease_id=lease_id)),
        ("job", HeartbeatJob(job_id="job", lease_id=lease_id, ttl=60, note="going on")),
        ("job", HeartbeatJob(job_id="job", lease_id=lease_id, ttl=90)),
        ("job", HeartbeatJob(job_id="job", lease_id="wrong", ttl=1)),
        ("job", CheckpointJob(job_id="job", lease_id=lease_id, data=b"1")),
        ("bound", KeepSessionAlive(session_id="s", lease_id=session.lease_id)),
        ("bound", HeartbeatJob(job_id="bound", lease_id=bound, ttl=1)),
    ]
    for job_id, command in quiet:
        assert not rings(store, ("job", job_id), command)


def test_acquiring_a_lock_again_for_a_shorter_time_rings(store: LocalStore) -> None:
    do(store, AcquireLock(job_id="lock", owner="ann", ttl=60))
    assert not rings(store, ("job", "lock"), AcquireLock(job_id="lock", owner="ann", ttl=60))
    assert rings(store, ("job", "lock"), AcquireLock(job_id="lock", owner="ann", ttl=30))


def reply_to_waiter(store: LocalStore, clock: ManualClock, waiting: AnyCommand, shorter: Callable[[], Any]) -> Any:
    """The reply to `waiting`, which may wait far longer than this test, after `shorter` ran and one second passed."""
    port = EmbeddedPort(store)
    pool = ThreadPoolExecutor(1)
    try:
        reply = pool.submit(port.execute, waiting, wait=600)
        until(lambda: waiting_threads() == 1)
        shorter()
        clock.advance(1)
        return reply.result(30)
    finally:
        store.close()  # wakes the waiter if nothing else did
        pool.shutdown()


def test_a_waiter_for_the_job_gets_it_at_the_new_expiry(store: LocalStore, clock: ManualClock) -> None:
    lease_id = do(store, ClaimJob(job_id="job", owner="ann", ttl=LONG)).lease_id
    heartbeat = HeartbeatJob(job_id="job", lease_id=lease_id, ttl=1)
    waiting = ClaimJob(job_id="job", owner="bob")
    reply = reply_to_waiter(store, clock, waiting, lambda: do(store, heartbeat))
    assert (reply.status, reply.owner) == ("claimed", "bob")


def test_a_waiter_for_the_next_job_of_a_queue_gets_it_at_the_new_expiry(
    store: LocalStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough that only the heartbeat can wake it.
    monkeypatch.setattr("octostore.core.decide.claim.LOOK_AGAIN_MS", LONG * 1_000)
    do(store, Enqueue(job_id="task", kind="build", queue="ci"))
    lease_id = do(store, ClaimNext(owner="ann", queue="ci", ttl=LONG)).lease_id
    heartbeat = HeartbeatJob(job_id="task", lease_id=lease_id, ttl=1)
    waiting = ClaimNext(owner="bob", queue="ci")
    reply = reply_to_waiter(store, clock, waiting, lambda: do(store, heartbeat))
    assert (reply.status, reply.job_id, reply.owner) == ("claimed", "task", "bob")
