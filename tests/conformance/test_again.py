"""A run does not inherit what a finished run left."""

import pytest

from tests.conformance.conftest import System


@pytest.mark.parametrize("is_queued", [False, True], ids=["free", "queued"])
def test_a_done_job_starts_over(system: System, is_queued: bool) -> None:
    store = system.store
    if is_queued:
        store.enqueue("build", job_id="job")
    first = store.claim_job("job")
    store.checkpoint_job("job", first.lease_id or "", {"step": 7})
    store.release_job("job", first.lease_id or "", outcome="done", result=1)
    again = system.other.claim_job("job", again=True)
    assert (again.status, again.checkpoint) == ("claimed", None)
    system.other.release_job("job", again.lease_id or "", outcome="failed", error="no")


def test_a_job_that_is_not_done_keeps_its_checkpoint(system: System) -> None:
    store = system.store
    for outcome in ("released", "failed", "deferred"):
        claim = store.claim_job(outcome)
        store.checkpoint_job(outcome, claim.lease_id or "", {"step": 7})
        store.release_job(outcome, claim.lease_id or "", outcome=outcome)
    system.advance(3_600)
    for outcome in ("released", "failed", "deferred"):
        assert system.other.claim_job(outcome).checkpoint == {"step": 7}
