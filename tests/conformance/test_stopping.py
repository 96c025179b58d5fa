"""Asking an owner to stop, on every store and with every client."""

from typing import Any

import pytest

from octostore import Conflict, LeaseLost, OctoStore
from tests.conformance.conftest import System


def types_of(store: OctoStore, job_id: str) -> list[str]:
    return [event.type for event in store.events(job_id=job_id)]


def test_an_owner_learns_of_a_stop_request_with_its_next_heartbeat(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="job")
    with pytest.raises(Conflict, match="use cancel to take it out of its queue"):
        store.request_stop("job")
    claim = store.claim_job("job", owner="ann")
    assert store.heartbeat_job("job", claim.lease_id or "").stop_requested is None
    asked = system.other.request_stop("job", reason="the branch is gone")
    assert asked.claim is not None
    assert asked.claim.stop_requested is not None
    assert asked.claim.stop_requested.delivered_at is None
    system.other.request_stop("job")
    stop = store.heartbeat_job("job", claim.lease_id or "").stop_requested
    assert stop is not None
    assert (stop.reason, stop.cancels) == ("the branch is gone", False)
    owner = system.other.get_job_owner("job")
    assert owner is not None
    assert owner.stop_requested == stop
    store.release_job("job", claim.lease_id or "")
    assert store.get_job("job").attempts == 0
    assert types_of(store, "job") == ["enqueued", "claimed", "stop_requested", "stop_delivered", "released"]


def test_a_held_claim_knows_that_it_should_stop(system: System) -> None:
    with system.store.hold("job") as claim:
        assert not claim.stop_requested.is_set()
        system.other.request_stop("job", reason="the machine goes down")
        claim.progress("half")
        assert (claim.stop_requested.is_set(), claim.stop_reason) == (True, "the machine goes down")
        assert claim.remaining() > 0, "it is still ours"
    assert types_of(system.store, "job")[-1] == "released"


def test_a_drained_job_is_cancelled_when_its_owner_has_stopped(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="job")
    claim = store.claim_next()
    assert system.other.cancel("job", reason="not needed", drain=True).status == "claimed"
    released = store.release_job("job", claim.lease_id or "", outcome="failed", error="cut short")
    assert released.status == "dead"
    job = store.get_job("job")
    assert (job.status, job.last_outcome, job.error) == ("dead", "cancelled", "not needed")
    assert types_of(store, "job")[2:] == ["stop_requested", "failed", "cancelled"]
    assert store.claim_next().status == "empty"


def test_a_job_whose_owner_does_not_stop_can_be_cancelled(system: System) -> None:
    claim = system.store.claim_job("job")
    assert [system.other.cancel("job", reason="now", drain=drain).status for drain in (True, False)] == [
        "claimed",
        "dead",
    ]
    with pytest.raises(LeaseLost, match=r"\(cancelled: 'now'\)") as caught:
        system.store.heartbeat_job("job", claim.lease_id or "")
    assert caught.value.ended is not None
    assert (caught.value.ended.how, caught.value.ended.reason) == ("cancelled", "now")


def test_a_session_learns_which_of_its_jobs_should_stop(system: System) -> None:
    session: Any = system.store.open_session("ann", session_id="s")
    for job_id in ("one", "two"):
        system.store.claim_job(job_id, owner="ann", session_id="s")
    session.keepalive()
    assert session.stop_requested == {}
    system.other.request_stop("two", reason="not now")
    assert [(name, stop.reason) for name, stop in session.keepalive().stop_requested.items()] == [("two", "not now")]
    assert list(session.stop_requested) == ["two"]
    session.close()
    assert types_of(system.store, "two") == ["claimed", "stop_requested", "stop_delivered", "released"]


def test_the_log_of_a_session_says_that_its_drained_job_was_cancelled(system: System) -> None:
    session: Any = system.store.open_session("ann", session_id="s")
    system.store.claim_job("job", owner="ann", session_id="s")
    system.other.cancel("job", drain=True)
    session.close()
    types = [event.type for event in system.store.events(session_id="s")]
    assert types == ["session_opened", "claimed", "stop_requested", "released", "cancelled", "session_closed"]


def test_a_session_is_closed_when_its_task_is_taken_away(system: System) -> None:
    """Otherwise its owner would go on with a lost task, because its keepalives are for the session."""
    store, other = system.store, system.other
    for job_id, take_away in (("one", other.cancel), ("two", other.force_release)):
        store.enqueue("build", job_id=job_id, queue="tasks", priority=1)
        claim = store.claim_task("s", "ann", queues=["tasks"])
        assert claim.job_id == job_id
        take_away(job_id, reason="no longer needed")
        with pytest.raises(LeaseLost):
            store.keep_session_alive("s", claim.lease_id or "")
        assert other.get_session("s").status == "closed"
    assert store.claim_task("s", "ann", queues=["tasks"]).job_id == "two", "at once"


def test_a_session_with_other_claims_goes_on_without_its_task(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="task", queue="tasks")
    claim = store.claim_task("s", "ann", queues=["tasks"])
    store.claim_job("deploy", owner="ann", session_id="s")
    system.other.cancel("task")
    assert store.keep_session_alive("s", claim.lease_id or "").remaining_ms > 0
    assert [job.job_id for job in store.list_claimed_jobs()] == ["deploy"]
