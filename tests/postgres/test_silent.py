"""The database is connected and silent: calls do not wait for ever, and their replies are true."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import octostore
from octostore.core.commands import ClaimJob
from octostore.stores import retrying
from octostore.stores.postgres import backend, connection, listener
from tests.postgres.test_outage import calls
from tests.postgres.test_waking import backend_of
from tests.support.embedded import local_store
from tests.support.pg_proxy import Act, PgProxy, swallow, swallow_the_reply
from tests.support.postgres_soundness import assert_sound
from tests.support.processes import Worker, until

BEGINNING, LOADING, COMMIT = b"FOR UPDATE", b"max_claimed IS NOT NULL", b"\nCOMMIT\n"
TIMEOUT_SECONDS = 0.5
CONNECT_SECONDS = 2
"""The minimum that libpq accepts."""
GIVE_UP_SECONDS = 0.2
A_LITTLE_SECONDS = 10
"""The machine may be busy with something else."""
WAITING = 2_000


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TIMEOUT_SECONDS", TIMEOUT_SECONDS)
    monkeypatch.setitem(connection.DEFAULTS, "connect_timeout", CONNECT_SECONDS)
    monkeypatch.setitem(backend.LIMITS, "idle", "400ms")


@pytest.fixture
def proxy(url: str) -> Iterator[PgProxy]:
    with PgProxy(url) as proxy:
        yield proxy


@pytest.fixture
def store(proxy: PgProxy) -> Iterator[octostore.OctoStore]:
    with octostore.connect(proxy.url) as store:
        yield store


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began_at = time.monotonic()
    yield
    assert time.monotonic() - began_at < seconds + A_LITTLE_SECONDS


def log_of(url: str, job_id: str) -> list[tuple[str, int]]:
    return [(entry.type, entry.seq) for entry in assert_sound(url) if entry.job_id == job_id]


@pytest.mark.parametrize("where", [BEGINNING, LOADING, COMMIT], ids=["beginning", "loading", "commit"])
@pytest.mark.parametrize("how", [swallow, swallow_the_reply])
def test_a_claim_is_made_once_and_its_reply_is_true(  # noqa: PLR0917  # what happens where, and who sees it
    url: str, store: octostore.OctoStore, proxy: PgProxy, where: bytes, how: Act, caplog: pytest.LogCaptureFixture
) -> None:
    store.enqueue("letter", {"to": "bob"}, job_id="job")
    proxy.when(where, how)
    with within(TIMEOUT_SECONDS):
        reply = store.claim_job("job", "ann")
    assert proxy.is_idle
    assert (reply.status, reply.job_id, reply.payload) == ("claimed", "job", {"to": "bob"})
    assert log_of(url, "job")[1:] == [("claimed", reply.fencing_token)]
    assert store.heartbeat_job("job", reply.lease_id or "").expires_at is not None
    assert caplog.records == [], "nothing to log"


@pytest.mark.parametrize("where", [b"READ ONLY", b"job_id = ANY"])
@pytest.mark.parametrize("how", [swallow, swallow_the_reply])
def test_reads_still_work(store: octostore.OctoStore, proxy: PgProxy, where: bytes, how: Act) -> None:
    store.claim_job("job", "ann")
    store.get_job("job")
    proxy.when(where, how)
    with within(TIMEOUT_SECONDS):
        assert store.get_job("job").owner == "ann"
    assert proxy.is_idle


def test_a_call_waits_for_only_one_of_several_silent_readers(
    store: octostore.OctoStore, proxy: PgProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(backend.LIMITS, "idle", "60s")
    store.claim_job("job", "ann")
    reading = backend_of(store)
    with reading.reading(), reading.reading(), reading.reading():
        pass
    proxy.fall_silent()
    proxy.speak()
    trips = len(proxy.trips)
    with within(TIMEOUT_SECONDS):
        assert store.get_job("job").owner == "ann"
    assert sum(b"READ ONLY" in trip for trip in proxy.trips[trips:]) == 1


def test_a_database_that_stays_silent_is_unreachable(
    url: str, store: octostore.OctoStore, proxy: PgProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "GIVE_UP_SECONDS", GIVE_UP_SECONDS)
    held = store.claim_job("job", "ann", ttl=600)
    store.get_job("job")
    proxy.fall_silent()
    for call in calls(store, held.lease_id or "")[2:8:2]:
        with pytest.raises(octostore.Unreachable) as caught, within(TIMEOUT_SECONDS + 2 * CONNECT_SECONDS):
            call()
        assert caught.value.reason == "network"
    proxy.speak()
    assert store.claim_job("job", "bob").owner == "ann"
    assert log_of(url, "job")[0] == ("claimed", held.fencing_token)


@pytest.mark.parametrize(("how", "owner"), [(swallow, "bob"), (swallow_the_reply, "ann")])
def test_a_store_that_cannot_learn_the_outcome_of_a_commit_says_so(  # noqa: PLR0917  # what happens, and who sees it
    url: str, store: octostore.OctoStore, proxy: PgProxy, monkeypatch: pytest.MonkeyPatch, how: Act, owner: str
) -> None:
    monkeypatch.setattr(retrying, "GIVE_UP_SECONDS", GIVE_UP_SECONDS)
    store.probe()
    proxy.when(COMMIT, how)
    with ThreadPoolExecutor(1) as pool:
        claiming = pool.submit(store.claim_job, "job", "ann")
        until(lambda: proxy.is_idle)
        proxy.fall_silent()
        with within(TIMEOUT_SECONDS + 2 * CONNECT_SECONDS):
            fault = claiming.exception(60)
    assert isinstance(fault, octostore.Unreachable)
    assert "cannot be asked whether it succeeded" in str(fault)
    proxy.speak()
    assert store.claim_job("job", "bob").owner == owner
    assert [kind for kind, _ in log_of(url, "job")] == ["claimed"]


def test_connecting_does_not_wait_for_ever_either(store: octostore.OctoStore, proxy: PgProxy) -> None:
    store.probe()
    proxy.fall_silent()
    with pytest.raises(octostore.Unreachable) as caught, within(CONNECT_SECONDS):
        octostore.connect(proxy.url)
    assert caught.value.reason == "network"


def test_a_database_process_that_is_paused(store: octostore.OctoStore) -> None:
    store.probe()
    writer = backend_of(store)._writer
    assert writer is not None
    pid = writer.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with within(TIMEOUT_SECONDS):
            assert store.claim_job("job", "ann").owner == "ann"
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_listener_that_hears_nothing_is_replaced(
    url: str, store: octostore.OctoStore, proxy: PgProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(listener, "TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(backend, "LOOK_SECONDS", 3_600)
    monkeypatch.setattr(backend, "POLL_ALONE_SECONDS", 3_600)
    lease_id = store.claim_job("job", "first", ttl=600).lease_id
    with Worker("puppet", url) as elsewhere, ThreadPoolExecutor(1) as pool:
        assert elsewhere.hear() == "ready"
        claiming = pool.submit(store.claim_job, "job", "second", wait=60)
        until(lambda: count_listens(proxy) == 1)
        proxy.fall_silent()
        proxy.speak()
        until(lambda: count_listens(proxy) > 1)
        elsewhere.ask("release_job", job_id="job", lease_id=lease_id)
        assert claiming.result(30).owner == "second"


def count_listens(proxy: PgProxy) -> int:
    return sum(b"LISTEN" in trip for trip in proxy.trips)


def test_thousands_of_waiting_callers_fail_together_and_later_ones_succeed(
    url: str, store: octostore.OctoStore, proxy: PgProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "GIVE_UP_SECONDS", GIVE_UP_SECONDS)
    store.probe()
    proxy.fall_silent()
    local = local_store(store)
    with within(TIMEOUT_SECONDS + 2 * CONNECT_SECONDS):
        waiting = [local.submit([ClaimJob(job_id=f"job-{n}", owner="ann")]) for n in range(WAITING)]
        faults: list[Any] = [submitted.exception(60) for submitted in waiting]
    assert {type(fault) for fault in faults} == {octostore.Unreachable}
    assert {fault.reason for fault in faults} == {"network"}
    proxy.speak()
    assert store.claim_job("job-1", "bob").owner == "bob"
    assert log_of(url, "job-2") == []
