"""Heartbeats of given jobs: who is alive, until when, and how far along, and nothing else."""

import pytest

from octostore import InvalidInput, OctoStore
from octostore.core.replies import Heartbeat
from tests.conformance.conftest import System


def heartbeat_of(store: OctoStore, job_id: str) -> Heartbeat:
    (found,) = store.list_heartbeats([job_id]).claims
    return found


def test_live_claims_are_listed_and_nothing_else(system: System) -> None:
    store, other = system.store, system.other
    first = store.claim_job("d/e#1", owner="ann", ttl=60)
    second = store.claim_job("b", owner="ben", ttl=3)
    store.enqueue("build", job_id="queued")
    ended = store.claim_job("ended")
    store.release_job("ended", ended.lease_id or "", outcome="done")
    system.advance(1)
    store.heartbeat_job("d/e#1", first.lease_id or "", progress="running tests", percent=40)

    listed = other.list_heartbeats(["queued", "d/e#1", "ended", "never-seen", "b", "d/e#1"])
    assert [claim.job_id for claim in listed.claims] == ["d/e#1", "b"], "in the order requested, each once"
    assert listed.at == other.figures().at
    for claim in listed.claims:
        owner = other.get_job_owner(claim.job_id)
        assert owner is not None
        assert (claim.fencing_token, claim.heartbeat_at, claim.expires_at, claim.progress, claim.stuck) == (
            owner.fencing_token,
            owner.heartbeat_at,
            owner.expires_at,
            owner.progress,
            owner.stuck,
        )
    assert listed.claims[0].progress is not None
    assert (listed.claims[0].progress.note, listed.claims[0].progress.percent) == ("running tests", 40)
    assert [claim.fencing_token for claim in listed.claims] == [first.fencing_token, second.fencing_token]

    system.advance(2)
    assert other.list_heartbeats(["b"]).claims == [], "it has expired, recorded or not"


def test_an_owner_whose_heartbeats_are_missing_is_late(system: System) -> None:
    store, other = system.store, system.other
    lease = store.claim_job("job", ttl=60).lease_id or ""
    system.advance(39)
    assert not heartbeat_of(other, "job").late
    system.advance(1)
    assert heartbeat_of(other, "job").late
    assert other.figures().late == 1
    store.heartbeat_job("job", lease)
    assert not heartbeat_of(other, "job").late


def test_an_owner_that_reports_nothing_is_stuck(system: System) -> None:
    store, other = system.store, system.other
    lease = store.claim_job("job", ttl=600, max_silence=60).lease_id or ""
    system.advance(60)
    assert (heartbeat_of(other, "job").stuck, heartbeat_of(other, "job").late) == (True, False)
    store.heartbeat_job("job", lease, progress="half of it")
    assert not heartbeat_of(other, "job").stuck


def test_a_claim_that_is_bound_to_a_session_lives_by_its_heartbeats(system: System) -> None:
    store, other = system.store, system.other
    session = store.open_session("ann", ttl=60)
    session.save({"much": "x" * 1_000})
    store.claim_job("job", ttl=3, session_id=session.session_id)
    system.advance(41)
    assert (heartbeat_of(other, "job").late, other.figures().late) == (True, 1)
    session.keepalive()
    heartbeat = heartbeat_of(other, "job")
    assert (heartbeat.heartbeat_at, heartbeat.late) == (other.get_session(session.session_id).heartbeat_at, False)
    assert heartbeat.expires_at == other.get_session(session.session_id).expires_at
    system.advance(60)
    assert other.list_heartbeats(["job"]).claims == []


def test_any_number_of_long_names_is_accepted(store: OctoStore) -> None:
    names = [f"{'ä' * 30}/{'b' * 60}/{number}" for number in range(450)]
    store.claim_many(names[::50])
    assert [claim.job_id for claim in store.list_heartbeats(iter(names)).claims] == names[::50]


@pytest.mark.parametrize("job_ids", [[], [""], ["a", "a b"], ["a,b"], [None], "job"])
def test_a_bad_list_of_names_is_refused(store: OctoStore, job_ids: list[str]) -> None:
    with pytest.raises(InvalidInput, match="job_ids"):
        store.list_heartbeats(job_ids)
