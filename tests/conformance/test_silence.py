"""Owners that heartbeat and report nothing: everybody sees them, and the log has each stall once."""

from octostore import OctoStore
from octostore.core.replies import JobOwner
from tests.conformance.conftest import System


def owner(store: OctoStore, job_id: str) -> JobOwner:
    found = store.get_job_owner(job_id)
    assert found is not None
    return found


def types(store: OctoStore, job_id: str) -> list[str]:
    return [event.type for event in store.events(job_id=job_id)]


def test_an_owner_that_reports_nothing_is_stuck(system: System) -> None:
    store, other = system.store, system.other
    claim = store.claim_job("job", owner="ann", ttl=600, max_silence=60)
    lease = claim.lease_id or ""
    assert claim.max_silence == 60
    system.advance(60)
    assert owner(other, "job").stuck
    assert other.claim_job("job").stuck
    assert other.health().stuck == other.figures().stuck == 1
    assert store.heartbeat_job("job", lease).stuck
    assert store.heartbeat_job("job", lease).stuck
    store.checkpoint_job("job", lease, {"step": 3})
    assert (owner(other, "job").stuck, owner(other, "job").max_silence) == (False, 60)
    system.advance(59)
    assert not store.heartbeat_job("job", lease, progress="half").stuck
    system.advance(60)
    assert store.heartbeat_job("job", lease).stuck
    assert types(other, "job") == ["claimed", "stuck", "stuck"]
    (logged,) = [event for event in other.events(job_id="job") if event.seq == other.figures().seq]
    assert (logged.type, logged.agent, logged.reason) == ("stuck", "ann", "no progress for 60 s")
    assert logged.data["last_progress_at"] == owner(other, "job").last_progress_at
    assert store.verify().problems == []


def test_every_way_to_claim_accepts_max_silence(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="next", queue="q")
    store.enqueue("build", job_id="task", queue="tasks")
    assert store.claim_next("q", max_silence=5).max_silence == 5
    assert store.claim_task("s", "ann", queues=["tasks"], max_silence=5).max_silence == 5
    store.claim_many(["many"], max_silence=5)
    store.batch([{"command": "claim_job", "job_id": "batched", "max_silence_seconds": 5}])
    with store.hold("held", max_silence=5) as held:
        assert not held.stuck
        system.advance(5)
        assert [claim.job_id for claim in store.list_claimed_jobs() if claim.stuck] == [
            "batched",
            "held",
            "many",
            "next",
            "task",
        ]


def test_keepalives_report_stuck_jobs(system: System) -> None:
    store = system.store
    session = store.open_session("ann", ttl=600)
    claim = store.claim_job("bound", session_id=session.session_id, max_silence=60)
    store.claim_job("silent", session_id=session.session_id)
    system.advance(60)
    assert session.keepalive().stuck_jobs == ["bound"]
    assert session.keepalive().stuck_jobs == ["bound"]
    store.checkpoint_job("bound", claim.lease_id or "", 7)
    assert session.keepalive().stuck_jobs == []
    assert types(store, "bound") == ["claimed", "stuck"]


def test_work_accepts_max_silence(system: System) -> None:
    store = system.store
    store.enqueue("build", queue="q")
    seen = []

    def handle(_claim: object) -> None:
        system.advance(60)
        seen.append([owner.stuck for owner in store.list_claimed_jobs()])

    assert store.work("q", handle, until_empty=True, ttl=600, max_silence=60) == 1
    assert seen == [[True]]
