"""Requeue and discard all dead jobs that match."""

import pytest

from octostore import InvalidInput, OctoStore
from octostore.core.limits import SWEEP_LIMIT
from tests.conformance.conftest import System


def make_dead(store: OctoStore, number: int, prefix: str = "job", **terms: str) -> list[str]:
    names = [f"{prefix}-{place:03}" for place in range(number)]
    store.enqueue_many([{"kind": "build", "job_id": name, **terms} for name in names])
    store.batch([{"command": "cancel_job", "job_id": name} for name in names])
    return names


def test_all_matching_jobs_are_requeued_batch_by_batch(system: System) -> None:
    store = system.store
    names = make_dead(store, 205, queue="ci")
    other = make_dead(store, 2, "other")
    totals: list[int] = []
    assert store.requeue_matching(queue="ci", reason="the disk was full", on_batch=totals.append) == 205
    assert totals == [100, 200, 205]
    assert [job.job_id for job in store.dead_jobs()] == other
    requeued = [event for event in store.events() if event.type == "requeued"]
    assert [event.job_id for event in requeued] == names
    me = store.whoami().name
    assert {(event.actor, event.data["reason"]) for event in requeued} == {(me, "the disk was full")}
    assert system.other.claim_next("ci").job_id == names[0]
    assert store.requeue_matching(queue="ci", reason="again") == 0


def test_all_matching_jobs_are_discarded(store: OctoStore) -> None:
    make_dead(store, 3)
    make_dead(store, 2, "other", kind="test")
    assert store.discard_matching(prefix="job-", reason="the branch is gone") == 3
    view = store.get_job("job-001")
    assert (view.status, view.last_outcome, view.error) == ("free", "discarded", "the branch is gone")
    assert store.discard_matching(kind="build", reason="none is left") == 0
    assert store.discard_matching(kind="test", queue="default", reason="gone, too") == 2
    assert store.dead_jobs() == []


def test_attempts_can_be_kept(store: OctoStore) -> None:
    store.enqueue("build", job_id="job", max_attempts=1)
    store.release_job("job", store.claim_next().lease_id or "", outcome="failed")
    store.requeue_matching(reason="once more", keep_attempts=True)
    assert store.claim_next().attempt == 2


def test_jobs_whose_last_attempt_expired_match(system: System) -> None:
    store = system.store
    session = store.open_session(ttl=10)
    for number, session_id in enumerate([None, session.session_id]):
        store.enqueue("build", {"step": number}, job_id=f"job-{number}", max_attempts=1)
        store.claim_next(ttl=10, session_id=session_id)
    system.advance(60)
    assert store.requeue_matching(reason="the machine is back") == 2
    claim = system.other.claim_next()
    assert (claim.job_id, claim.attempt, claim.payload) == ("job-0", 1, {"step": 0})


def test_jobs_that_all_expired_at_once_match(system: System) -> None:
    """More than one write records."""
    store, number = system.store, SWEEP_LIMIT + 20
    names = [f"job-{place:03}" for place in range(number)]
    store.enqueue_many([{"kind": "build", "job_id": name, "max_attempts": 1} for name in names])
    store.claim_many(names, ttl=10)
    system.advance(60)
    assert store.requeue_matching(queue="default", reason="the rack is back") == number
    assert [event.job_id for event in store.events() if event.type == "requeued"] == names


def test_a_reason_is_required(store: OctoStore) -> None:
    names = make_dead(store, 1)
    with pytest.raises(InvalidInput, match="reason must not be empty"):
        store.discard_matching(reason="")
    assert [job.job_id for job in store.dead_jobs()] == names
