"""`kill -9` on the server, again and again: nothing acknowledged is lost, and its clients come back."""

import random
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import octostore
from octostore.client.http import port as http_port
from tests.processes.crowd import Follower, acknowledged, at_work, listen, listen_for, stop, threads_of
from tests.processes.ledger import Ack, Ledger, assert_all_recovered
from tests.support.async_as_sync import Loop, StoreAsSync
from tests.support.embedded import open_with_clock
from tests.support.processes import PATIENCE_SECONDS, free_port, until
from tests.support.server import ServerProcess
from tests.support.soundness import assert_sound, read_contents, read_jobs, reading_only
from tests.support.world import ManualClock

KINDS = ("sync", "async")
DAY_MS = 86_400_000
TTL_SECONDS = 15
HAPPENS = {"claimed", "heartbeat", "checkpoint", "ended", "enqueued", "saved", "closed"}
AWAY_SECONDS = 5.2
"""Longer than the time between heartbeats."""


def kill_again_and_again(home: Path, kills: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    ledger = Ledger(partial(read_contents, home / "octostore.db"))
    port = free_port()
    with ServerProcess(home, port=port) as server:
        url, token = server.url, server.token
        store = octostore.connect(url, token=token)
        follower = Follower(store)
        held = store.hold("kept", ttl=60)
        kept = held.__enter__()
    monkeypatch.setenv("OCTOSTORE_TOKEN", token)
    acks: list[Ack] = []
    killed_at: list[float] = []
    with at_work({kind: (url, kind) for kind in KINDS}) as workers:
        for _ in range(kills):
            with ServerProcess(home, port=port):
                # Sometimes at once, while all clients reconnect; mostly in the middle of their work.
                news = listen(workers, chance.choice([0, 0.2, 0.6, 1.2]) * chance.random())
            killed_at.append(time.monotonic())
            news += listen(workers)
            ledger.check(acknowledged(news))
            acks += news
        with ServerProcess(home, port=port) as server:
            acks += listen_for(workers, "thread", threads_of(*KINDS))
            # On a slow machine, not everything has happened between the kills.
            acks += listen_for(workers, "what", HAPPENS - {ack["what"] for ack in acks})
            kept.check()
            acks += stop(workers)
            held.__exit__(None, None, None)
            until(lambda: bool(follower.seqs) and follower.seqs[-1] == server.seq)
            store.close()
            follower.end()
    check_everything(home / "octostore.db", ledger, acks, killed_at)
    assert not kept.lost.is_set()
    assert follower.seqs == [entry.seq for entry in ledger.log]


def check_everything(path: Path, ledger: Ledger, acks: list[Ack], killed_at: list[float]) -> None:
    ledger.check_tokens(acknowledged(acks))
    ledger.check(acknowledged(acks))
    log = assert_sound(path)
    assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
    with open_with_clock(path, ManualClock(round(time.time() * 1_000) + DAY_MS)) as store:
        assert_all_recovered(store, ledger)
    assert_sound(path)
    # The test proves something only if all of this happened, and calls were under way when the server was killed.
    done = Counter(ack["what"] for ack in acks)
    assert set(done) - {"given_up"} == HAPPENS | {"took_long"}, done
    long = [(ack["at"] - ack["seconds"], ack["at"]) for ack in acks if ack["what"] == "took_long"]
    assert all(any(began_at < moment < ended_at for began_at, ended_at in long) for moment in killed_at)


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_again_and_again(tmp_path, kills=6, seed=1, monkeypatch=monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_in_50_kills_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_again_and_again(tmp_path, kills=50, seed=2, monkeypatch=monkeypatch)


# Claims held meanwhile


def stored(path: Path, job_id: str) -> Any:
    """The claim in the file."""
    with reading_only(path) as connection:
        return read_jobs(connection)[job_id].claim


def test_a_hold_survives_a_restart_that_is_shorter_than_its_lease(tmp_path: Path) -> None:
    path, port, loop = tmp_path / "octostore.db", free_port(), Loop()
    with ServerProcess(tmp_path, port=port) as server:
        store = octostore.connect(server.url, token=server.token)
        other: Any = StoreAsSync(loop, loop.run(octostore.connect_async(server.url, token=server.token)))
        session = store.open_session("agent", ttl=TTL_SECONDS)
        session.__enter__()
        holds = {"one": store.hold("one", ttl=TTL_SECONDS), "two": other.hold("two", ttl=TTL_SECONDS)}
        claims = {job_id: hold.__enter__() for job_id, hold in holds.items()}
        bound = store.claim_job("bound", session_id=session.session_id)
    before = {job_id: stored(path, job_id) for job_id in claims}
    time.sleep(AWAY_SECONDS)
    with ServerProcess(tmp_path, port=port):
        started_ms = time.time() * 1_000
        until(lambda: all(stored(path, job_id).heartbeat_at > started_ms for job_id in claims))
        for job_id, claim in claims.items():
            claim.check()
            assert not claim.lost.is_set()
            claim.progress("still here")
            assert claim.fencing_token == before[job_id].fencing_token == stored(path, job_id).fencing_token
            holds[job_id].__exit__(None, None, None)
        until(lambda: store.get_session(session.session_id).heartbeat_at.timestamp() * 1_000 > started_ms)
        assert not session.lost.is_set()
        assert store.release_job("bound", bound.lease_id or "").fencing_token == bound.fencing_token
        session.__exit__(None, None, None)
        for job_id in ("one", "two", "bound"):
            assert [event.type for event in store.events(job_id=job_id)] == ["claimed", "released"]
        store.close()
        other.close()
        loop.stop()
    assert_sound(path)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stuck"])
def test_a_hold_is_lost_in_time_when_the_server_stays_away(
    how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_port, "GIVE_UP_SECONDS", 0.2)
    monkeypatch.setattr(http_port, "RESPONSE_SECONDS", 0.2)
    path, port = tmp_path / "octostore.db", free_port()
    lost_at: list[float] = []
    with ServerProcess(tmp_path, port=port) as server:
        store = octostore.connect(server.url, token=server.token)
        with (  # noqa: PT012  # the end of the block is what raises
            pytest.raises(octostore.LeaseLost),
            store.hold("job", owner="worker", ttl=5, on_lost=lambda: lost_at.append(time.time())) as claim,
        ):
            claim.check()
            server.process.send_signal(how)
            assert claim.lost.wait(PATIENCE_SECONDS)
            assert claim.remaining() == 0
            with pytest.raises(octostore.LeaseLost):
                claim.check()
    # It could not be renewed, so this is the earliest moment at which another owner could get it.
    expires_at = stored(path, "job").expires_at / 1_000
    assert len(lost_at) == 1
    assert lost_at[0] < expires_at
    with ServerProcess(tmp_path, port=port):
        successor = store.claim_job("job", "successor", wait=PATIENCE_SECONDS)
        assert successor.status == "claimed"
        assert successor.claimed_at is not None
        assert successor.claimed_at.timestamp() >= expires_at
        assert (successor.fencing_token or 0) > claim.fencing_token
        store.close()
