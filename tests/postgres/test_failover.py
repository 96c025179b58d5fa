"""The primary dies and a synchronous standby takes over: nothing acknowledged is lost, and all clients come back."""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

import octostore
from octostore.client.embedded import EmbeddedPort
from octostore.stores import retrying
from octostore.stores.clock import as_stored
from octostore.stores.postgres import backend
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.connection import parse_address
from octostore.stores.store import LocalStore
from tests.processes.crowd import Follower, acknowledged, at_work, listen, listen_for, stop, threads_of
from tests.processes.ledger import Ack, Ledger, assert_all_recovered
from tests.support.cluster import Cluster
from tests.support.postgres import made
from tests.support.postgres_soundness import assert_sound, read_contents
from tests.support.processes import PATIENCE_SECONDS, Worker, until
from tests.support.server import ServerProcess

DAY_MS = 86_400_000
numbers = count(1)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long in this process, so that a busy machine does not fail its calls. Other processes use the default."""
    monkeypatch.setattr(retrying, "GIVE_UP_SECONDS", PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def started() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    started.heal()
    return started


@pytest.fixture
def url(cluster: Cluster) -> str:
    return cluster.url(f"store_{next(numbers)}")


@pytest.fixture
def store(url: str) -> Iterator[octostore.OctoStore]:
    with octostore.connect(url) as store:
        yield store


def test_the_primary_is_found_among_several_hosts(cluster: Cluster) -> None:
    standby, primary = (f"127.0.0.1:{node.port}" for node in (cluster.standby, cluster.primary))
    with octostore.connect(f"postgresql://postgres@{standby},{primary}/postgres?schema=found") as store:
        assert store.claim_job("job").status == "claimed"
    with pytest.raises(octostore.Unreachable) as fault:
        octostore.connect(f"postgresql://postgres@{standby}/postgres?schema=found")
    assert fault.value.reason == "network"


# The worst moment: the primary has committed, and no one knows yet


def test_a_commit_that_the_standby_never_got_is_not_acknowledged(
    cluster: Cluster, url: str, store: octostore.OctoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(backend.LIMITS, "statement", "200ms")
    monkeypatch.setitem(backend.LIMITS, "idle", "400ms")
    monkeypatch.setitem(backend.LIMITS, "transaction", "400ms")
    before = store.claim_job("before", "worker")
    cluster.primary.send_nothing()
    with ThreadPoolExecutor(1) as pool:
        claiming = pool.submit(store.claim_job, "job", "worker")
        until(cluster.primary.has_waiting_commit)
        # Past the statement and transaction timeouts, which must not end the wait.
        time.sleep(0.6)
        assert cluster.primary.has_waiting_commit()
        assert not claiming.done()
        assert store.get_job_owner("job") is None
        cluster.primary.kill()
        killed_at = time.time()
        cluster.promote()
        reply = claiming.result(30)
    # The claim was lost with the primary and made again, like any other.
    assert (reply.status, before.fencing_token, reply.fencing_token) == ("claimed", 1, 2)
    assert not reply.replayed
    log = assert_sound(url)
    assert [(entry.seq, entry.type, entry.job_id) for entry in log] == [(1, "claimed", "before"), (2, "claimed", "job")]
    assert log[1].at >= killed_at * 1_000
    store.release_job("job", reply.lease_id or "")


def test_a_commit_that_the_standby_got_is_acknowledged_once_after_the_primary_died(
    cluster: Cluster, url: str, store: octostore.OctoStore
) -> None:
    store.claim_job("before", "worker")
    with ThreadPoolExecutor(1) as pool:
        with cluster.standby.paused():
            claiming = pool.submit(store.claim_job, "job", "worker")
            until(cluster.primary.has_waiting_commit)
            ((end,),) = cluster.primary.ask("SELECT pg_current_wal_flush_lsn()")
            # The data waits in the network until the paused standby reads it.
            until(lambda: cluster.primary.ask(f"SELECT sent_lsn >= '{end}' FROM pg_stat_replication") == [(True,)])
            assert not claiming.done()
            killed_at = time.time()
            cluster.primary.kill()
        until(lambda: cluster.standby.ask(f"SELECT pg_last_wal_receive_lsn() >= '{end}'") == [(True,)])
        cluster.promote()
        reply = claiming.result(30)
    assert (reply.status, reply.fencing_token) == ("claimed", 2)
    log = assert_sound(url)
    assert [(entry.seq, entry.job_id) for entry in log] == [(1, "before"), (2, "job")]
    assert log[1].at <= killed_at * 1_000
    store.release_job("job", reply.lease_id or "")


def test_a_repeated_claim_that_only_a_restarted_primary_has_is_not_acknowledged(cluster: Cluster, url: str) -> None:
    """After its restart the primary shows what the standby has not got yet. It may still die for good."""
    made(url)
    cluster.primary.send_nothing()
    with Worker("claimer", url, "job", "the-request") as worker:
        assert worker.hear() == "ready"
        worker.tell("go")
        until(cluster.primary.has_waiting_commit)
        assert worker.said() == []
    with ThreadPoolExecutor(1) as pool:
        with cluster.standby.paused():
            cluster.primary.kill()
            cluster.primary.start()
            store = octostore.connect(url)
            assert store.get_job_owner("job") is not None
            claiming = pool.submit(store.claim_job, "job", "claimer", request_id="the-request")
            until(lambda: claiming.done() or cluster.primary.has_waiting_commit())
            assert not claiming.done()
            cluster.primary.kill()
            killed_at = time.time()
        cluster.promote()
        reply = claiming.result(30)
        store.close()
    assert (reply.status, reply.fencing_token, reply.replayed) == ("claimed", 1, False)
    (entry,) = assert_sound(url)
    assert entry.at >= killed_at * 1_000


# Under load


class Round(NamedTuple):
    acks: list[Ack]
    away_seconds: float
    """From the primary's death to the next acknowledged claim."""


def meanwhile(act: Callable[[], None], workers: list[Worker]) -> list[Ack]:
    """Run `act`, and return the replies that the workers got meanwhile."""
    heard: list[Ack] = []
    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(act)
        while not doing.done():
            heard += listen(workers, 0.02)
        doing.result()
    return heard


def fail_over(cluster: Cluster, workers: list[Worker], names: set[str], noticed_after: float) -> Round:
    heard = meanwhile(cluster.primary.kill, workers)
    killed_at = time.monotonic()
    heard += listen(workers, noticed_after)
    promoting_at = time.monotonic()
    heard += meanwhile(cluster.promote, workers)
    heard += listen_for(workers, "thread", names)
    claimed_at = [ack["at"] for ack in heard if ack["what"] == "claimed" and ack["at"] > promoting_at]
    return Round(heard, min(claimed_at) - killed_at)


def fail_over_again_and_again(cluster: Cluster, url: str, home: Path, rounds: int, seed: int) -> str:
    chance = random.Random(seed)
    ledger = Ledger(partial(read_contents, url))
    acks: list[Ack] = []
    away: list[float] = []
    with ExitStack() as stack:
        servers = [stack.enter_context(ServerProcess(home, env={"OCTOSTORE_URL": url})) for _ in range(2)]
        token = servers[0].token
        stores = [octostore.connect(url), *(octostore.connect(server.url, token=token) for server in servers)]
        for store in stores:
            stack.callback(store.close)
        followers = [Follower(store) for store in stores]
        holds = [store.hold(f"kept-{number}", ttl=60) for number, store in enumerate(stores)]
        kept = [hold.__enter__() for hold in holds]
        clients = {
            "library": (url, "sync"),
            "async-library": (url, "async"),
            "client": (servers[0].url, "sync"),
            "async-client": (servers[1].url, "async"),
        }
        names = threads_of(*clients)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OCTOSTORE_TOKEN", token)
            workers = stack.enter_context(at_work(clients))
        acks += listen_for(workers, "thread", names)
        for number in range(rounds):
            if number:
                acks += meanwhile(cluster.attach, workers)
            # Sometimes at once, mostly in the middle of the clients' work.
            acks += listen(workers, chance.choice([0, 1, 3]) * chance.random())
            this = fail_over(cluster, workers, names, noticed_after=chance.choice([0, 0.2, 1.0]))
            ledger.check(acknowledged(this.acks))
            acks += this.acks
            away.append(this.away_seconds)
        acks += stop(workers)
        for claim, hold in zip(kept, holds, strict=True):
            claim.check()
            assert not claim.lost.is_set()
            hold.__exit__(None, None, None)
        end = read_contents(url).seq
        for store, follower in zip(stores, followers, strict=True):
            until(lambda follower=follower: bool(follower.seqs) and follower.seqs[-1] >= end)  # type: ignore[misc]
            store.close()
            follower.end()
            assert follower.seqs == list(range(1, len(follower.seqs) + 1))
        for server in servers:
            server.check_has_not_failed()
            assert server.stop() == 0
    check_everything(url, ledger, acks, rounds)
    return summary(acks, away)


def check_everything(url: str, ledger: Ledger, acks: list[Ack], rounds: int) -> None:
    ledger.check_tokens(acknowledged(acks))
    ledger.check(acknowledged(acks))
    log = assert_sound(url)
    assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
    now_ms = round(time.time() * 1_000) + DAY_MS
    local = LocalStore(lambda: PostgresBackend(parse_address(url), lambda: now_ms), clock=as_stored)
    with octostore.OctoStore(EmbeddedPort(local)) as store:
        assert_all_recovered(store, ledger)
    assert_sound(url)
    # The test proves something only if all of this happened, and calls were under way when the primary was killed.
    done = Counter(ack["what"] for ack in acks)
    expected = {"claimed", "heartbeat", "checkpoint", "ended", "enqueued", "saved", "closed", "took_long"}
    assert set(done) - {"given_up"} == expected, done
    assert done["took_long"] >= rounds


def summary(acks: list[Ack], away: list[float]) -> str:
    done = Counter(ack["what"] for ack in acks)
    reasons = Counter(ack["reason"] for ack in acks if ack["what"] == "given_up")
    return (
        f"{len(away)} promotions, {len(acknowledged(acks))} acknowledged: {dict(done)}, given up for {dict(reasons)}; "
        f"seconds from the kill to the next claim: {', '.join(f'{seconds:.2f}' for seconds in away)}"
    )


def test_nothing_acknowledged_is_lost_when_the_primary_is_killed(cluster: Cluster, url: str, tmp_path: Path) -> None:
    fail_over_again_and_again(cluster, url, tmp_path, rounds=1, seed=7)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_in_10_promotions(
    cluster: Cluster, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = fail_over_again_and_again(cluster, url, tmp_path, rounds=10, seed=2)
    with capsys.disabled():
        sys.stdout.write(f"\n{numbers}\n")
