"""W3C trace contexts: the next owner gets those of the enqueue and of the attempts before."""

from typing import Any

import pytest

from octostore import InvalidInput, OctoStore
from octostore.core.replies import AttemptView, JobOwner
from tests.conformance.conftest import System


def trace(digit: str) -> str:
    return f"00-{digit * 32}-{digit * 16}-01"


ENQUEUED, FIRST, SECOND = map(trace, "123")


def owner(store: OctoStore, job_id: str) -> JobOwner:
    found = store.get_job_owner(job_id)
    assert found is not None
    return found


def of_previous(reply: Any) -> list[tuple[str, str | None]]:
    previous: list[AttemptView] = reply.previous
    return [(attempt.how, attempt.traceparent) for attempt in previous]


def test_a_successor_gets_the_traces_of_the_job_and_of_the_attempt_before(system: System) -> None:
    store, other = system.store, system.other
    store.enqueue("build", job_id="job", traceparent=ENQUEUED)
    first = store.claim_next(owner="ann", ttl=5, traceparent=FIRST)
    assert (first.traceparent, first.attempt_traceparent, first.previous) == (ENQUEUED, FIRST, [])
    assert owner(other, "job").traceparent == FIRST
    system.advance(10)
    second = other.claim_job("job", "bob", traceparent=SECOND)
    assert (second.traceparent, second.attempt_traceparent) == (ENQUEUED, SECOND)
    assert of_previous(second) == [("expired", FIRST)]
    released = other.release_job("job", second.lease_id or "", "done")
    assert released.traceparent == SECOND
    job = store.get_job("job")
    assert (job.traceparent, of_previous(job)) == (ENQUEUED, [("done", SECOND), ("expired", FIRST)])
    logged = [(event.type, event.data.get("traceparent")) for event in store.events(job_id="job")]
    assert logged == [
        ("enqueued", ENQUEUED),
        ("claimed", FIRST),
        ("expired", FIRST),
        ("claimed", SECOND),
        ("done", SECOND),
    ]
    assert store.verify().problems == []


def test_without_a_traceparent_there_is_none(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="job")
    claim = store.claim_next()
    assert (claim.traceparent, claim.attempt_traceparent) == (None, None)
    store.release_job("job", claim.lease_id or "")
    assert of_previous(store.claim_job("job")) == [("released", None)]
    assert all("traceparent" not in event.data for event in store.events())


def test_a_replayed_claim_keeps_its_trace(system: System) -> None:
    store = system.store
    store.claim_job("job", request_id="r", traceparent=FIRST)
    again = store.claim_job("job", request_id="r", traceparent=SECOND)
    assert (again.replayed, again.attempt_traceparent) == (True, FIRST)


def test_a_discarded_job_loses_its_trace(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="job", traceparent=ENQUEUED)
    store.cancel("job")
    assert store.discard("job").traceparent is None


def test_every_way_to_claim_and_enqueue_accepts_a_traceparent(system: System) -> None:
    store = system.store
    store.enqueue_many([{"kind": "build", "job_id": "task"}], queue="tasks", traceparent=ENQUEUED)
    task = store.claim_task("s", "ann", queues=["tasks"], traceparent=FIRST)
    assert (task.traceparent, task.attempt_traceparent) == (ENQUEUED, FIRST)
    store.hand_over("s", "bob", lease_id=task.lease_id)
    assert owner(store, "task").traceparent == FIRST
    enqueued, claimed = store.batch(
        [
            {"command": "enqueue", "kind": "build", "job_id": "batched", "queue": "q", "traceparent": ENQUEUED},
            {"command": "claim_next", "queue": "q", "traceparent": SECOND},
        ]
    )
    assert enqueued.created
    assert (claimed.traceparent, claimed.attempt_traceparent) == (ENQUEUED, SECOND)


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "00",
        ENQUEUED.upper().replace("1", "A"),
        f"{ENQUEUED}-more",
        f" {ENQUEUED}",
        f"{ENQUEUED}\n",
        ENQUEUED.replace("00-", "01-", 1),
        ENQUEUED.replace("00-", "ff-", 1),
        ENQUEUED.replace("1" * 32, "0" * 32),
        ENQUEUED.replace("-" + "1" * 16 + "-", "-" + "0" * 16 + "-"),
        7,
    ],
)
def test_a_malformed_traceparent_is_refused(system: System, malformed: Any) -> None:
    store = system.store
    with pytest.raises(InvalidInput, match="traceparent must be a W3C traceparent"):
        store.enqueue("build", traceparent=malformed)
    with pytest.raises(InvalidInput, match="traceparent must be a W3C traceparent"):
        store.claim_job("job", traceparent=malformed)
    assert list(store.events()) == []
