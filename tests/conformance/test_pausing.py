"""Pausing a queue: nobody gets its jobs, every reply says so, and waiting callers get them when it is resumed."""

from datetime import UTC, datetime

import pytest

from octostore import Conflict, InvalidInput, OctoStore
from tests.conformance.conftest import System
from tests.conformance.test_waiting import Waiter
from tests.support.world import START_MS

NOW = datetime.fromtimestamp(START_MS / 1_000, UTC)


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(system: System) -> None:
    store = system.store
    for number in range(3):
        store.enqueue("build", job_id=f"job-{number}", queue="ci")
    held = store.claim_next("ci", owner="ann")
    paused = store.set_queue("ci", paused=True, reason="deploying")
    assert (paused.queue, paused.max_claimed, paused.paused) == ("ci", None, True)
    assert paused.pause is not None
    assert (paused.pause.at, paused.pause.reason) == (NOW, "deploying")
    empty = system.other.claim_next("ci")
    assert (empty.status, empty.all_done) == ("empty", False)
    assert empty.queue_status is not None
    assert (empty.queue_status.paused, empty.queue_status.pause) == (True, paused.pause)
    by_name = system.other.claim_job("job-2")
    assert (by_name.status, by_name.pause) == ("delayed", paused.pause)
    with pytest.raises(Conflict, match=r"its queue ci is paused by \w+ \(deploying\)"), store.hold("job-2"):
        pass
    assert store.queue_status("ci").paused
    store.heartbeat_job("job-0", held.lease_id or "")
    store.release_job("job-0", held.lease_id or "", outcome="done")
    resumed = system.other.set_queue("ci", paused=False)
    assert (resumed.paused, resumed.pause) == (False, None)
    assert store.claim_next("ci").job_id == "job-1"


def test_waiting_callers_get_jobs_when_it_is_resumed(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough that only the resume can wake them.
    monkeypatch.setattr("octostore.core.decide.claim.QUEUE_FULL_RETRY_MS", 60_000)
    store = system.store
    store.set_queue("ci", paused=True)
    for number in range(3):
        store.enqueue("build", job_id=f"job-{number}", queue="ci")
    by_name = Waiter(system, lambda: system.other.claim_job("job-2", wait=60))
    waiters = [Waiter(system, lambda: system.other.claim_next("ci", wait=60)) for _ in range(2)]
    assert not any(waiter.has_reply for waiter in [by_name, *waiters])
    store.set_queue("ci", paused=False)
    assert {waiter().job_id for waiter in waiters} == {"job-0", "job-1"}
    assert by_name().status == "claimed"


def test_settings_that_are_left_out_stay(store: OctoStore) -> None:
    store.set_queue("ci", max_claimed=3, paused=True)
    assert (store.limit_queue("ci", 2).paused, store.set_queue("ci", paused=False).max_claimed) == (True, 2)
    store.set_queue("ci", paused=True)
    lifted = store.set_queue("ci", max_claimed=None)
    assert (lifted.max_claimed, lifted.paused) == (None, True)
    (queue,) = store.list_queues().queues
    assert (queue.queue, queue.paused, queue.max_claimed) == ("ci", True, None)
    store.set_queue("ci", paused=False)
    assert store.list_queues().queues == [], "it has neither jobs nor settings"
    with pytest.raises(InvalidInput, match="nothing to change"):
        store.set_queue("ci")
    with pytest.raises(InvalidInput, match="max_claimed"):
        store.set_queue("ci", max_claimed=0)


def test_the_log_says_who_paused_it_and_why(store: OctoStore) -> None:
    store.set_queue("ci", paused=True, reason="deploying")
    store.set_queue("ci", paused=True, reason="again")
    store.set_queue("ci", max_claimed=4)
    store.set_queue("ci", paused=False)
    events = [event for event in store.events() if event.type == "queue_limited"]
    assert [(event.queue, event.reason, event.data) for event in events] == [
        ("ci", "deploying", {"max_claimed": None, "paused": True, "reason": "deploying"}),
        ("ci", None, {"max_claimed": 4}),
        ("ci", None, {"max_claimed": 4, "paused": False}),
    ]


def test_a_queue_is_paused_in_a_batch(store: OctoStore) -> None:
    store.enqueue("build", job_id="job", queue="ci")
    paused, empty, limited = store.batch(
        [
            {"command": "set_queue", "queue": "ci", "paused": True},
            {"command": "claim_next", "queue": "ci", "owner": "ann"},
            {"command": "limit_queue", "queue": "ci", "max_claimed": 1},
        ]
    )
    assert (paused.paused, empty.status, limited.paused, limited.max_claimed) == (True, "empty", True, 1)
