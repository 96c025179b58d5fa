"""PgBouncer in transaction mode: each transaction may use another connection, and no state stays on one."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

import octostore
from octostore.stores import retrying
from octostore.stores.postgres import backend
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.connection import LISTEN_VARIABLE, parse_address
from tests.processes.crowd import Follower, acknowledged, at_work, listen, listen_for, stop, threads_of
from tests.processes.ledger import Ack, Ledger
from tests.support.embedded import local_store, waiting_threads
from tests.support.pgbouncer import POOL_SIZE, PROGRAM, PgBouncer
from tests.support.postgres import made, new_schema, postgres_url
from tests.support.postgres_soundness import assert_sound, read_contents
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.server import ServerProcess

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed (apt-get install pgbouncer)")

SETTINGS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
LEFT_BEHIND = f"""
SELECT pg_backend_pid(), {", ".join(f"current_setting('{name}')" for name in SETTINGS)},
    coalesce(current_setting('octostore.now', true), ''),
    (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
""".encode()


class Pooled(NamedTuple):
    """A store: through the pooler, and directly."""

    url: str
    direct_url: str


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long in this process, so that a busy machine does not fail its calls. Other processes use the default."""
    monkeypatch.setattr(retrying, "GIVE_UP_SECONDS", PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def pooler() -> Iterator[PgBouncer]:
    with PgBouncer(postgres_url()) as pooler:
        yield pooler


@pytest.fixture
def pooled(pooler: PgBouncer) -> Pooled:
    direct_url = made(new_schema())
    return Pooled(f"{pooler.url}?schema={parse_address(direct_url).schema}", direct_url)


@pytest.fixture
def stores(pooled: Pooled) -> Iterator[list[octostore.OctoStore]]:
    """Two independent stores, as in two processes."""
    with octostore.connect(pooled.url) as one, octostore.connect(pooled.url) as other:
        yield [one, other]


def backend_of(store: octostore.OctoStore) -> PostgresBackend:
    found = local_store(store).engine.backend
    assert isinstance(found, PostgresBackend)
    return found


def end_all_pooled() -> None:
    """End all connections from the pooler, whatever they are doing."""
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'octostore'"
        )
        assert ended.fetchall()


# Many clients at work


def test_nothing_acknowledged_is_lost_though_many_share_few_connections(
    pooler: PgBouncer, pooled: Pooled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(partial(read_contents, pooled.direct_url))
    acks: list[Ack] = []
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(tmp_path, env={"OCTOSTORE_URL": pooled.url}))
        monkeypatch.setenv("OCTOSTORE_TOKEN", server.token)
        stores = [octostore.connect(pooled.url), octostore.connect(server.url)]
        for store in stores:
            stack.callback(store.close)
        followers = [Follower(store) for store in stores]
        holds = [store.hold(f"kept-{number}", ttl=60) for number, store in enumerate(stores)]
        kept = [hold.__enter__() for hold in holds]
        clients = {"one": (pooled.url, "sync"), "two": (pooled.url, "async"), "client": (server.url, "sync")}
        workers = stack.enter_context(at_work(clients))
        acks += listen_for(workers, "thread", threads_of(*clients))
        connected, servers = pooler.clients_and_servers()
        assert connected > POOL_SIZE >= servers
        for _ in range(3):
            end_all_pooled()
            acks += listen(workers, 0.2)
        acks += listen_for(workers, "thread", threads_of(*clients))
        pooler.kill()
        acks += listen(workers, 0.2)
        pooler.start()
        acks += listen_for(workers, "thread", threads_of(*clients))
        acks += stop(workers)
        for claim, hold in zip(kept, holds, strict=True):
            claim.check()
            hold.__exit__(None, None, None)
        end = read_contents(pooled.direct_url).seq
        for store, follower in zip(stores, followers, strict=True):
            until(lambda follower=follower: bool(follower.seqs) and follower.seqs[-1] >= end)  # type: ignore[misc]
            store.close()
            follower.end()
            assert follower.seqs == list(range(1, len(follower.seqs) + 1))
        server.check_has_not_failed()
    ledger.check_tokens(acknowledged(acks))
    ledger.check(acknowledged(acks))
    assert_sound(pooled.direct_url)
    done = Counter(ack["what"] for ack in acks)
    assert {"claimed", "heartbeat", "checkpoint", "ended", "enqueued", "saved"} <= set(done), done


@contextmanager
def all_taken(pooler: PgBouncer) -> Iterator[ExitStack]:
    """Other clients hold transactions open on all connections of the pool."""
    with ExitStack() as hogs:
        for _ in range(POOL_SIZE):
            hogs.enter_context(psycopg.connect(pooler.url)).execute("SELECT 1")
        yield hogs


def test_a_call_that_gets_no_connection_is_retried(pooler: PgBouncer, stores: list[octostore.OctoStore]) -> None:
    with ThreadPoolExecutor(2) as pool, all_taken(pooler) as hogs:
        claiming = pool.submit(stores[0].claim_job, "job")
        asking = pool.submit(stores[1].get_job_owner, "job")
        # The pooler has refused both.
        until(lambda: pooler.log.count("closing because: query_wait_timeout") >= 2)
        assert not claiming.done()
        assert not asking.done()
        hogs.close()
        reply, owner = claiming.result(30), asking.result(30)
    assert reply.status == "claimed"
    assert owner in {None, stores[1].get_job_owner("job")}


def test_a_store_that_gets_no_connection_cannot_be_opened(pooler: PgBouncer, pooled: Pooled) -> None:
    with all_taken(pooler), pytest.raises(octostore.Unreachable, match="query_wait_timeout") as fault:
        octostore.connect(pooled.url)
    assert fault.value.reason == "network"


def test_no_state_is_left_on_the_connections(pooler: PgBouncer, stores: list[octostore.OctoStore]) -> None:
    with ThreadPoolExecutor(4) as pool:
        following = [pool.submit(next, store.events(follow=True)) for store in stores]
        claims = [pool.submit(stores[n % 2].claim_job, f"job-{n}") for n in range(20)]
        assert {claim.result(30).status for claim in claims} == {"claimed"}
        assert {event.result(30).seq for event in following} == {1}
        until(lambda: all(backend_of(store)._listener is not None for store in stores))
    with psycopg.connect(pooler.url) as one, psycopg.connect(pooler.url) as other:
        found = [connection.execute(LEFT_BEHIND).fetchone() for connection in (one, other)]
    assert {row[1:] for row in found if row is not None} == {(*["0"] * 4, "", *[0] * 3)}
    assert len({row[0] for row in found if row is not None}) == POOL_SIZE


# Waiting


def check_waking(one: octostore.OctoStore, other: octostore.OctoStore) -> None:
    first = one.claim_job("job", "first", ttl=600)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(other.claim_job, "job", "second", wait=30)
        until(lambda: waiting_threads() == 1)
        following = pool.submit(list, islice(other.events(follow=True), 3))
        until(lambda: waiting_threads() == 2)
        one.release_job("job", first.lease_id or "")
        reply = waiting.result(30)
        assert (reply.status, reply.owner) == ("claimed", "second")
        assert [event.type for event in following.result(30)] == ["claimed", "released", "claimed"]


def test_a_waiting_caller_is_woken_over_a_direct_connection(pooled: Pooled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LISTEN_VARIABLE, pooled.direct_url)
    monkeypatch.setattr(backend, "LOOK_SECONDS", 3_600)
    with octostore.connect(pooled.url) as one, octostore.connect(pooled.url) as other:
        with local_store(other).listening([], lambda: None):
            until(lambda: backend_of(other).poll_seconds == 3_600)
        check_waking(one, other)


def test_a_waiting_caller_polls_without_a_direct_connection(stores: list[octostore.OctoStore]) -> None:
    one, other = stores
    check_waking(one, other)
    listener = backend_of(other)._listener
    assert listener is not None
    until(lambda: listener._is_pooled)
    assert backend_of(other).poll_seconds == backend.POLL_ALONE_SECONDS
    # The listener has given up for good, and keeps no connection of the pool.
    until(lambda: not listener._thread.is_alive())
