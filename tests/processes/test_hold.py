"""`hold()` for real: heartbeats continue whatever the work does, and an owner that cannot heartbeat knows before
anyone else gets the job.
"""

import signal
import threading
import time
from pathlib import Path

import apsw
import pytest

import octostore
from tests.support.processes import PATIENCE_SECONDS, Worker

TTL_SECONDS = 1.5
WORK_SECONDS = 3.2 * TTL_SECONDS


@pytest.mark.parametrize("how", ["blocks", "spins"])
def test_work_that_leaves_no_time_for_heartbeats_keeps_its_job(
    store: octostore.OctoStore, path: Path, how: str
) -> None:
    with Worker("puppet", path) as worker:
        assert worker.hear() == "ready"
        assert "reply" in worker.ask("hold", job_id="job", owner="worker", ttl=TTL_SECONDS)
        worker.tell("work", how=how, seconds=WORK_SECONDS)
        rival = store.claim_job("job", "rival", wait=WORK_SECONDS - 0.1)
        assert "reply" in worker.hear()
        assert "reply" in worker.ask("check")
        assert "reply" in worker.ask("leave")
    assert (rival.status, rival.owner) == ("held", "worker")
    assert rival.heartbeat_at is not None
    assert rival.claimed_at is not None
    assert (rival.heartbeat_at - rival.claimed_at).total_seconds() > 2
    assert [event.type for event in store.events(job_id="job")] == ["claimed", "released"]


def test_a_lease_that_cannot_be_renewed_is_lost_before_anybody_else_gets_the_job(
    store: octostore.OctoStore, path: Path
) -> None:
    lost_at: list[float] = []
    with (  # noqa: PT012  # the end of the block is what raises
        Worker("puppet", path) as stuck,
        Worker("puppet", path) as rival,
        pytest.raises(octostore.LeaseLost) as refused,
        store.hold("job", owner="worker", ttl=5, on_lost=lambda: lost_at.append(time.time())) as claim,
    ):
        assert (stuck.hear(), rival.hear()) == ("ready", "ready")
        claim.check()
        rival.ask("wait", method="claim_job", job_id="job", owner="rival", wait=30)
        stuck.ask("lock")
        expires_at = stuck.ask("stored_expiry", job_id="job")["reply"] / 1_000
        assert claim.lost.wait(10)
        assert claim.remaining() == 0
        with pytest.raises(octostore.LeaseLost):
            claim.check()
        # The store stays stuck until the lease has expired there, too.
        threading.Event().wait(expires_at + 0.2 - time.time())
        stuck.ask("unlock")
        got = rival.hear()
    assert lost_at[0] < expires_at
    assert len(lost_at) == 1
    assert (got["reply"]["status"], got["reply"]["owner"]) == ("claimed", "rival")
    assert got["wall"] > expires_at
    assert refused.value.ended is not None
    assert refused.value.ended.how == "expired"
    assert refused.value.holder is not None
    assert refused.value.holder.owner == "rival"


def test_no_lease_is_lost_if_the_store_is_stuck_for_a_while(store: octostore.OctoStore, path: Path) -> None:
    with Worker("puppet", path) as stuck:
        assert stuck.hear() == "ready"
        with store.hold("job", ttl=4) as claim:
            stuck.ask("lock")
            expires_at = stuck.ask("stored_expiry", job_id="job")["reply"] / 1_000
            # Long enough for a heartbeat to be blocked, but not for the lease to expire.
            threading.Event().wait(expires_at - time.time() - 2)
            stuck.ask("unlock")
            assert not claim.lost.wait(2.5)
            claim.check()
    assert [event.type for event in store.events(job_id="job")] == ["claimed", "released"]


def test_a_worker_that_was_paused_too_long_is_refused_with_the_reason(store: octostore.OctoStore, path: Path) -> None:
    with Worker("puppet", path) as worker:
        assert worker.hear() == "ready"
        old = worker.ask("hold", job_id="job", owner="sleeper", ttl=3)["reply"]
        worker.signal(signal.SIGSTOP)
        successor = store.claim_job("job", "successor", ttl=60, wait=30)
        assert successor.status == "claimed"
        worker.signal(signal.SIGCONT)
        assert worker.ask("check")["error"] == "LeaseLost"
        late_beat = worker.ask("heartbeat_job", job_id="job", lease_id=old["lease_id"])
        late = worker.ask("release_job", job_id="job", lease_id=old["lease_id"], outcome="done")
        left = worker.ask("leave")
    assert late_beat["error"] == "LeaseLost"
    assert late["error"] == "LeaseLost"
    assert late["holder"]["owner"] == "successor"
    assert late["holder"]["fencing_token"] == successor.fencing_token
    assert (late["ended"]["how"], late["ended"]["owner"]) == ("expired", "sleeper")
    assert late["ended"]["fencing_token"] == old["fencing_token"]
    assert left["error"] == "LeaseLost"
    assert successor.fencing_token is not None
    assert successor.fencing_token > old["fencing_token"]
    owner = store.get_job_owner("job")
    assert owner is not None
    assert owner.owner == "successor"
    assert [event.type for event in store.events(job_id="job")] == ["claimed", "expired", "claimed"]


def test_an_unforeseen_failure_of_the_store_loses_the_lease_in_time(path: Path) -> None:
    lost = threading.Event()
    with (  # noqa: PT012  # the end of the block is what raises
        octostore.connect(f"sqlite:///{path}") as store,
        pytest.raises(Exception, match="no such table"),
        store.hold("job", ttl=5, on_lost=lost.set) as claim,
    ):
        vandal = apsw.Connection(str(path))
        vandal.execute("DROP TABLE jobs")
        vandal.close()
        assert lost.wait(PATIENCE_SECONDS)
        with pytest.raises(octostore.LeaseLost):
            claim.check()


def test_a_hold_with_a_bad_outcome_claims_nothing(store: octostore.OctoStore) -> None:
    with pytest.raises(octostore.InvalidInput), store.hold("job", outcome="finished"):  # type: ignore[arg-type]
        pass
    assert store.get_job_owner("job") is None
