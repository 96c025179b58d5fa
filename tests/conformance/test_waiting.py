"""Waiting claims: woken by the commit that makes them possible."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest

from octostore import InvalidInput, JobView
from octostore.core.model import Outcome
from tests.conformance.conftest import System
from tests.support.processes import until

R = TypeVar("R")


class Waiter(Generic[R]):
    """A claim that is already waiting. Calling it returns the reply."""

    def __init__(self, system: System, claim: Callable[[], R]) -> None:
        others = system.waiting()
        self._replies: list[R] = []
        self._thread = threading.Thread(target=lambda: self._replies.append(claim()))
        self._thread.start()
        until(lambda: system.waiting() == others + 1)

    @property
    def has_reply(self) -> bool:
        return bool(self._replies)

    def __call__(self) -> R:
        self._thread.join(timeout=30)
        assert self._replies, "the claim is still waiting"
        return self._replies[0]


def test_a_release_wakes_a_waiter(system: System) -> None:
    held = system.store.claim_job("job")
    waiter = Waiter(system, lambda: system.other.claim_job("job", owner="waiter", wait=30))
    system.store.release_job("job", held.lease_id or "")
    assert waiter().status == "claimed"


def test_an_enqueue_wakes_a_worker(system: System) -> None:
    waiter = Waiter(system, lambda: system.other.claim_next("ci", wait=30))
    system.store.enqueue("build", job_id="task", queue="ci")
    assert waiter().job_id == "task"


def test_a_wait_until_done_ends_when_the_last_job_is_settled(system: System) -> None:
    system.store.enqueue("build", job_id="task", max_attempts=1)
    held = system.store.claim_next()
    waiter = Waiter(system, lambda: system.other.claim_next(wait=600, until_done=True))
    system.store.release_job("task", held.lease_id or "", outcome="failed", error="broken")
    assert (waiter().status, waiter().all_done) == ("empty", True)


def test_a_wait_until_done_gets_a_job_that_is_released(system: System) -> None:
    system.store.enqueue("build", job_id="task")
    held = system.store.claim_next()
    waiter = Waiter(system, lambda: system.other.claim_next(owner="successor", wait=600, until_done=True))
    system.store.release_job("task", held.lease_id or "")
    assert (waiter().status, waiter().owner) == ("claimed", "successor")


def test_callers_that_wait_for_new_jobs_keep_waiting_when_all_is_done(system: System) -> None:
    system.store.enqueue("build", job_id="task")
    held = system.store.claim_next()
    patient = Waiter(system, lambda: system.other.claim_next(wait=600))
    hasty = Waiter(system, lambda: system.other.claim_next(wait=600, until_done=True))
    system.store.release_job("task", held.lease_id or "", outcome="done")
    assert (hasty().status, hasty().all_done) == ("empty", True)
    assert not patient.has_reply
    system.store.enqueue("build", job_id="another")
    assert patient().job_id == "another"


@pytest.mark.parametrize(("outcome", "handled"), [("released", 1), ("done", 0)])
def test_work_until_done_waits_for_what_others_hold(system: System, outcome: Outcome, handled: int) -> None:
    system.store.enqueue("build", job_id="task")
    held = system.store.claim_next()
    waiter = Waiter(system, lambda: system.other.work("default", lambda _claim: None, until_done=True))
    system.store.release_job("task", held.lease_id or "", outcome=outcome)
    assert waiter() == handled
    assert system.store.get_job("task").status == "done"


def test_a_forced_release_and_a_recovery_wake_waiters(system: System) -> None:
    system.store.claim_job("forced")
    waiter = Waiter(system, lambda: system.other.claim_job("forced", wait=30))
    system.store.force_release("forced")
    assert waiter().status == "claimed"
    system.store.claim_job("expiring", ttl=3_600)
    waiter = Waiter(system, lambda: system.other.claim_job("expiring", wait=30))
    system.advance(3_600)
    system.store.recover()
    assert waiter().status == "claimed"


def test_room_in_a_full_queue_wakes_a_caller_that_waits_by_name(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough that only the release can wake it.
    monkeypatch.setattr("octostore.core.decide.claim.QUEUE_FULL_RETRY_MS", 60_000)
    store = system.store
    store.limit_queue("serial", 1)
    for job_id in ("first", "second"):
        store.enqueue("build", job_id=job_id, queue="serial")
    first = store.claim_next("serial")
    waiter = Waiter(system, lambda: system.other.claim_job("second", wait=30))
    store.release_job("first", first.lease_id or "", outcome="done")
    assert waiter().status == "claimed"


def test_when_the_wait_times_out_the_reply_says_who_has_the_job(system: System) -> None:
    system.store.claim_job("job", owner="ann")
    reply = system.other.claim_job("job", owner="bob", wait=0.05)
    assert (reply.status, reply.owner) == ("held", "ann")
    assert system.other.claim_next("nothing", wait=0.05).status == "empty"


def test_one_of_many_waiters_gets_the_job(system: System) -> None:
    held = system.store.claim_job("job")
    waiters = [Waiter(system, lambda: system.other.claim_job("job", wait=60)) for _ in range(5)]
    system.store.release_job("job", held.lease_id or "")
    until(lambda: any(waiter.has_reply for waiter in waiters))
    (winner,) = (waiter() for waiter in waiters if waiter.has_reply)
    system.store.release_job("job", winner.lease_id or "", outcome="done")
    assert sorted(waiter().status for waiter in waiters) == ["claimed"] + ["done"] * 4


def test_a_wait_ends_when_the_job_is_done(system: System) -> None:
    held = system.store.claim_job("job")
    waiter = Waiter(system, lambda: system.other.claim_job("job", wait=30))
    system.store.release_job("job", held.lease_id or "", outcome="done", result=1)
    assert (waiter().status, waiter().result) == ("done", 1)


def test_a_wait_without_an_end_lasts_until_the_job_is_free(system: System) -> None:
    held = system.store.claim_job("job")
    waiter = Waiter(system, lambda: system.other.claim_job("job", owner="waiter", wait=None))
    system.store.release_job("job", held.lease_id or "")
    assert waiter().status == "claimed"


def test_a_hold_waits_without_an_end_if_asked_to(system: System) -> None:
    held = system.store.claim_job("job")

    def hold() -> int:
        with system.other.hold("job", wait=None) as claim:
            return claim.fencing_token

    waiter = Waiter(system, hold)
    system.store.release_job("job", held.lease_id or "")
    assert waiter() > (held.fencing_token or 0)


@pytest.mark.parametrize("wait", [-1, 86_401, "soon"])
def test_a_bad_wait_is_refused(system: System, wait: Any) -> None:
    with pytest.raises(InvalidInput, match="wait"):
        system.store.claim_job("job", wait=wait)
    assert system.store.get_job("job").status == "free"


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_wait_for_job_returns_when_the_job_is_done_or_dead(system: System, outcome: Outcome) -> None:
    store = system.store
    store.enqueue("build", job_id="job", max_attempts=2)
    first = store.claim_next()
    store.release_job("job", first.lease_id or "", "failed", error="broken", retry_after=0)  # not settled yet
    held = store.claim_next()
    replies: list[JobView] = []
    waiter = threading.Thread(target=lambda: replies.append(system.other.wait_for_job("job")))
    waiter.start()
    ending = {"result": 42} if outcome == "done" else {"error": "broken"}
    store.release_job("job", held.lease_id or "", outcome, **ending)
    waiter.join(timeout=30)
    (job,) = replies
    assert (job.status, job.result) == (("done", 42) if outcome == "done" else ("dead", None))
    assert store.wait_for_job("job").status == job.status, "at once"


def test_a_job_that_is_not_settled_in_time_is_returned_as_it_is(system: System) -> None:
    system.store.enqueue("build", job_id="job")
    assert system.store.wait_for_job("job", wait=0).status == "queued"
    assert system.store.wait_for_job("job", wait=0.05).status == "queued"
