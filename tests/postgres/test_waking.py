"""NOTIFY wakes waiting callers, from process to process and from server to server; polling is a last resort."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

import octostore
from octostore.stores.postgres import backend
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.connection import LISTEN_VARIABLE
from tests.support.embedded import local_store, waiting_threads
from tests.support.pg_proxy import PgProxy
from tests.support.processes import Worker, until
from tests.support.server import ServerProcess
from tests.support.starting import BLIND

PROMISED_MS = 250
TRIES = 5
LISTENING = "FROM pg_stat_activity WHERE query ILIKE 'listen%%' AND query ILIKE %s"


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process does not poll the log within the time of a test."""
    monkeypatch.setattr(backend, "LOOK_SECONDS", 3_600)
    monkeypatch.setattr(backend, "POLL_ALONE_SECONDS", 3_600)


def backend_of(store: octostore.OctoStore) -> PostgresBackend:
    found = local_store(store).engine.backend
    assert isinstance(found, PostgresBackend)
    return found


def is_listening(store: octostore.OctoStore) -> bool:
    listener = backend_of(store)._listener
    return listener is not None and listener.is_connected


@contextmanager
def waiting(store: octostore.OctoStore, job_id: str) -> Iterator[Callable[[], octostore.ClaimReply]]:
    """During the block, a thread waits for the job and listens. Yields a function that waits for its reply."""
    with ThreadPoolExecutor(1) as pool:
        claiming = pool.submit(store.claim_job, job_id, "second", wait=60)
        until(lambda: waiting_threads() == 1 and is_listening(store))
        try:
            yield lambda: claiming.result(30)
        finally:
            if not claiming.done():
                store.close()


def delays(store: octostore.OctoStore) -> list[float]:
    """In milliseconds, from each release to the next claim, by the store's clock."""
    return [
        (after.at - before.at).total_seconds() * 1_000
        for before, after in pairwise(store.events())
        if (before.type, after.type) == ("released", "claimed")
    ]


@pytest.fixture
def elsewhere(url: str) -> Iterator[Worker]:
    """Another process that uses the same store."""
    with Worker("puppet", url) as worker:
        assert worker.hear() == "ready"
        yield worker


@pytest.mark.usefixtures("blind")
def test_a_release_elsewhere_wakes_by_notify(store: octostore.OctoStore, elsewhere: Worker) -> None:
    for number in range(TRIES):
        job_id = f"job-{number}"
        lease_id = store.claim_job(job_id, "first", ttl=600).lease_id
        with waiting(store, job_id) as reply:
            elsewhere.ask("release_job", job_id=job_id, lease_id=lease_id)
            assert reply().owner == "second"
    took = delays(store)
    assert len(took) == TRIES
    assert min(took) < PROMISED_MS, "the machine may be busy, but not always"


@pytest.mark.usefixtures("blind")
def test_an_enqueued_job_elsewhere_wakes_by_notify(store: octostore.OctoStore, elsewhere: Worker) -> None:
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(store.claim_next, wait=60)
        until(lambda: waiting_threads() == 1 and is_listening(store))
        elsewhere.ask("enqueue", kind="letter", job_id="letter-1")
        assert taking.result(30).job_id == "letter-1"


def test_from_server_to_server(url: str, tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, "--url", url, program=BLIND) as one,
        ServerProcess(tmp_path, "--url", url, program=BLIND) as other,
    ):
        here = octostore.connect(one.url, token=one.token)
        there = octostore.connect(other.url, token=one.token)
        for number in range(TRIES):
            job_id = f"job-{number}"
            lease_id = here.claim_job(job_id, "first", ttl=600).lease_id or ""
            with ThreadPoolExecutor(1) as pool:
                claiming = pool.submit(there.claim_job, job_id, "second", wait=60)
                until(lambda: "octostore_waiting_claims 1.0" in other.get("/metrics").body.decode())
                here.release_job(job_id, lease_id)
                assert claiming.result(30).owner == "second"
        took = delays(here)
        here.close()
        there.close()
    assert len(took) == TRIES
    assert min(took) < PROMISED_MS, "the machine may be busy, but not always"


@pytest.mark.usefixtures("blind")
def test_a_listener_that_was_cut_off_comes_back_and_reads_what_it_missed(
    admin: psycopg.Connection, store: octostore.OctoStore, elsewhere: Worker, schema: str
) -> None:
    lease_id = store.claim_job("job", "first", ttl=600).lease_id
    with waiting(store, "job") as reply:
        for _ in range(2):
            terminate_listener(admin, schema)
        elsewhere.ask("release_job", job_id="job", lease_id=lease_id)
        assert reply().owner == "second"
    until(lambda: is_listening(store))


def terminate_listener(admin: psycopg.Connection, schema: str) -> None:
    until(lambda: admin.execute(f"SELECT pg_terminate_backend(pid) {LISTENING}", (f"%{schema}%",)).rowcount == 1)
    until(lambda: admin.execute(f"SELECT {LISTENING}", (f"%{schema}%",)).rowcount == 0)


def test_without_a_listener_it_polls(url: str, elsewhere: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LISTEN_VARIABLE, "postgresql://127.0.0.1:1/nowhere")
    with octostore.connect(url) as store, ThreadPoolExecutor(1) as pool:
        lease_id = store.claim_job("job", "first", ttl=600).lease_id
        claiming = pool.submit(store.claim_job, "job", "second", wait=60)
        until(lambda: waiting_threads() == 1)
        elsewhere.ask("release_job", job_id="job", lease_id=lease_id)
        assert claiming.result(30).owner == "second"
        assert not is_listening(store)


@pytest.mark.usefixtures("blind")
def test_listening_uses_its_own_url_if_one_is_set(url: str, elsewhere: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    with PgProxy(url) as main, PgProxy(url) as for_listening:
        # With the schema, as people would copy it; libpq does not know that option.
        monkeypatch.setenv(LISTEN_VARIABLE, for_listening.url)
        with octostore.connect(main.url) as store:
            lease_id = store.claim_job("job", "first", ttl=600).lease_id
            with waiting(store, "job") as reply:
                elsewhere.ask("release_job", job_id="job", lease_id=lease_id)
                assert reply().owner == "second"
        assert any(b"LISTEN" in trip for trip in for_listening.trips)
        assert not any(b"LISTEN" in trip for trip in main.trips)
        assert not any(b"FOR UPDATE" in trip for trip in for_listening.trips)


def test_a_bad_url_for_listening_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LISTEN_VARIABLE, "postgresql://h/db?no_such_option=1")
    with pytest.raises(octostore.InvalidInput) as caught:
        octostore.connect(url)
    assert caught.value.field == LISTEN_VARIABLE
