"""The connection breaks at any point of a batch: every caller gets one reply, and it agrees with the log."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import octostore
from octostore.core.commands import ClaimJob
from octostore.stores import retrying
from octostore.stores.postgres import backend
from tests.support.embedded import local_store
from tests.support.pg_proxy import (
    Act,
    PgProxy,
    cut,
    cut_at_once,
    cut_in_the_middle,
    cut_unnoticed,
    deliver_when,
    lose_the_reply,
    pass_on,
)
from tests.support.postgres_soundness import assert_sound
from tests.support.processes import until

BEGINNING, LOADING, COMMIT = b"FOR UPDATE", b"max_claimed IS NOT NULL", b"\nCOMMIT\n"
"""Texts that identify the round trips of a batch."""
CUTS = [cut, cut_in_the_middle, cut_at_once, lose_the_reply]
JOBS = 30
THREADS = 6


@pytest.fixture
def proxy(url: str) -> Iterator[PgProxy]:
    with PgProxy(url) as proxy:
        yield proxy


@pytest.fixture
def store(proxy: PgProxy) -> Iterator[octostore.OctoStore]:
    with octostore.connect(proxy.url) as store:
        yield store


def log_of(url: str, job_id: str) -> list[tuple[str, int]]:
    """The job's events, after checking the whole log."""
    return [(entry.type, entry.seq) for entry in assert_sound(url) if entry.job_id == job_id]


@pytest.mark.parametrize("where", [BEGINNING, LOADING, COMMIT], ids=["beginning", "loading", "commit"])
@pytest.mark.parametrize("how", CUTS)
def test_a_claim_is_made_once_and_its_reply_is_true(
    url: str, store: octostore.OctoStore, proxy: PgProxy, where: bytes, how: Act
) -> None:
    store.enqueue("letter", {"to": "bob"}, job_id="job")
    proxy.when(where, how)
    reply = store.claim_job("job", "ann")
    assert proxy.is_idle
    assert (reply.status, reply.job_id, reply.payload) == ("claimed", "job", {"to": "bob"})
    assert log_of(url, "job")[1:] == [("claimed", reply.fencing_token)]
    # The caller got the lease that is stored.
    assert store.heartbeat_job("job", reply.lease_id or "").expires_at is not None


@pytest.mark.parametrize("how", CUTS)
def test_a_claim_is_ended_once(
    url: str, store: octostore.OctoStore, proxy: PgProxy, how: Act, caplog: pytest.LogCaptureFixture
) -> None:
    lease_id = store.claim_job("job", "ann").lease_id or ""
    proxy.when(COMMIT, how)
    store.heartbeat_job("job", lease_id, progress="half way")
    owner = store.get_job_owner("job")
    assert owner is not None
    assert owner.progress is not None
    assert owner.progress.note == "half way"
    proxy.when(COMMIT, how)
    store.release_job("job", lease_id, "done", result={"sent": True})
    assert proxy.is_idle
    assert [kind for kind, _ in log_of(url, "job")] == ["claimed", "done"]
    assert store.claim_job("job").result == {"sent": True}
    assert caplog.records == [], "nothing to log"


@pytest.mark.parametrize("how", CUTS)
def test_reads_still_work(store: octostore.OctoStore, proxy: PgProxy, how: Act) -> None:
    store.claim_job("job", "ann")
    proxy.when(b"READ ONLY", how)
    assert store.get_job("job").owner == "ann"
    proxy.when(b"job_id = ANY", how)
    assert store.get_job("job").owner == "ann"
    proxy.cut_all()
    assert store.get_job("job").owner == "ann"
    assert store.claim_job("job").owner == "ann"
    assert proxy.is_idle


def test_every_caller_in_the_batch_gets_its_own_reply(
    url: str, admin: psycopg.Connection, schema: str, store: octostore.OctoStore, proxy: PgProxy
) -> None:
    local = local_store(store)
    local.submit([ClaimJob(job_id="job-1", owner="before")]).result(30)
    with psycopg.connect(admin.info.dsn) as blocker:
        blocker.execute(f"SELECT FROM {schema}.counters FOR UPDATE".encode())
        waiting = local.submit([ClaimJob(job_id="first", owner="test")])
        # While that one waits for the lock, these form one batch.
        batch = [local.submit([ClaimJob(job_id=f"job-{n % 20}", owner=f"caller-{n}")]) for n in range(40)]
        proxy.when(COMMIT, lose_the_reply, lose_the_reply)
    replies: list[Any] = [submitted.result(30)[0] for submitted in (waiting, *batch)]
    claimed = {reply.job_id: reply for reply in replies if reply.status == "claimed"}
    assert Counter(reply.status for reply in replies) == {"claimed": 20, "held": 21}
    entries = [entry for entry in assert_sound(url) if entry.type == "claimed"][1:]
    assert {entry.job_id: entry.seq for entry in entries} == {name: one.fencing_token for name, one in claimed.items()}
    assert proxy.is_idle


def test_a_client_waits_for_a_commit_that_arrives_late(
    url: str, admin: psycopg.Connection, store: octostore.OctoStore, proxy: PgProxy
) -> None:
    """The client was cut off, and asks about its commit before the database has received it."""
    store.probe()
    go = threading.Event()
    proxy.when(COMMIT, deliver_when(go))
    with ThreadPoolExecutor(1) as pool:
        claiming = pool.submit(store.claim_job, "job", "ann")
        until(lambda: admin.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount == 1)
        assert not claiming.done()
        go.set()
        reply = claiming.result(30)
    assert (reply.status, reply.owner) == ("claimed", "ann")
    assert log_of(url, "job") == [("claimed", reply.fencing_token)]


def test_a_commit_that_never_arrives_is_repeated(
    url: str, store: octostore.OctoStore, proxy: PgProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database does not notice either, and keeps the transaction until its idle timeout."""
    monkeypatch.setitem(backend.LIMITS, "idle", "1s")
    store.probe()
    proxy.when(COMMIT, cut_unnoticed)
    reply = store.claim_job("job", "ann")
    assert reply.status == "claimed"
    assert log_of(url, "job") == [("claimed", reply.fencing_token)]


@pytest.mark.parametrize("first", [cut, lose_the_reply])
def test_the_question_about_a_commit_may_get_lost_as_well(
    url: str, store: octostore.OctoStore, proxy: PgProxy, first: Act
) -> None:
    store.probe()
    proxy.when(COMMIT, first, lose_the_reply, cut)
    reply = store.claim_job("job", "ann")
    assert proxy.is_idle
    assert reply.status == "claimed"
    assert log_of(url, "job") == [("claimed", reply.fencing_token)]


def test_a_store_that_cannot_find_out_says_so_and_keeps_working(
    url: str, store: octostore.OctoStore, proxy: PgProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lost transaction keeps the lock, so its outcome is unknown until the database ends it."""
    store.probe()
    monkeypatch.setattr(backend, "LIMITS", backend.LIMITS | {"lock": "100ms", "idle": "2s"})
    proxy.when(COMMIT, cut_unnoticed)
    with pytest.raises(octostore.Unreachable, match="cannot be asked whether it succeeded") as caught:
        store.claim_job("job", "ann")
    assert caught.value.reason == "network"
    with pytest.raises(octostore.Unreachable, match="another process has been writing") as caught:
        store.claim_job("job", "ann")
    assert caught.value.reason == "busy"
    monkeypatch.setitem(backend.LIMITS, "lock", "10s")
    reply = store.claim_job("job", "ann")
    assert log_of(url, "job") == [("claimed", reply.fencing_token)]


def test_a_connection_that_stays_cut_is_unreachable(
    url: str, store: octostore.OctoStore, proxy: PgProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "GIVE_UP_SECONDS", 0.5)
    held = store.claim_job("job", "ann")
    proxy.when(COMMIT, lose_the_reply)
    proxy.when(BEGINNING, *[cut] * 1_000)
    with pytest.raises(octostore.Unreachable) as caught:
        store.claim_job("other", "ann")
    assert caught.value.reason == "network"
    proxy.forget()
    # The commit had succeeded, as the next claim shows.
    assert store.claim_job("other", "bob").owner == "ann"
    assert log_of(url, "job") == [("claimed", held.fencing_token)]


def test_repeated_cuts_while_many_claim(url: str, store: octostore.OctoStore, proxy: PgProxy) -> None:
    chance = random.Random(1)
    for number in range(12):
        # Not every commit, or one caller would rightly give up.
        proxy.when(chance.choice([BEGINNING, COMMIT, COMMIT]), CUTS[number % len(CUTS)])
        proxy.when(COMMIT, *[pass_on] * 2)

    def claim_and_release(number: int) -> tuple[str, int | None]:
        reply = store.claim_job(f"job-{number % 10}", f"caller-{number}", wait=30)
        assert reply.status == "claimed"
        store.release_job(reply.job_id or "", reply.lease_id or "")
        return reply.job_id or "", reply.fencing_token

    with ThreadPoolExecutor(THREADS) as pool:
        claims = list(pool.map(claim_and_release, range(JOBS)))
        while not proxy.is_idle:
            claims.append(claim_and_release(len(claims)))
    log = assert_sound(url)
    assert sorted(claims) == sorted((entry.job_id, entry.seq) for entry in log if entry.type == "claimed")
    assert Counter(entry.type for entry in log) == {"claimed": len(claims), "released": len(claims)}
