"""Enqueue, claim next, work, retries, dead letters."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from octostore import Deferred, Failed, InvalidInput, LeaseLost, OctoStore
from octostore.core.replies import ClaimReply
from tests.conformance.conftest import System
from tests.support.world import START_MS


def lease(reply: ClaimReply) -> str:
    assert reply.lease_id is not None, reply
    return reply.lease_id


def test_a_task_from_enqueue_to_done(system: System) -> None:
    store, worker = system.store, system.other
    task = store.enqueue("build", {"commit": "abc"}, queue="ci")
    assert (task.created, task.status) == (True, "queued")
    claim = worker.claim_next("ci", owner="worker-1")
    assert (claim.job_id, claim.payload, claim.kind, claim.attempt) == (task.job_id, {"commit": "abc"}, "build", 1)
    assert worker.claim_next("ci").status == "empty"
    worker.release_job(task.job_id, lease(claim), outcome="done", result="ok")
    view = store.get_job(task.job_id)
    assert (view.status, view.result, view.last_outcome) == ("done", "ok", "done")


def test_jobs_are_claimed_in_order(store: OctoStore) -> None:
    soon = datetime.fromtimestamp(START_MS / 1_000, UTC)
    store.enqueue("k", job_id="second")
    store.enqueue("k", job_id="third")
    store.enqueue("k", job_id="first", priority=1)
    store.enqueue("k", job_id="tomorrow", priority=0, run_at=soon + timedelta(days=1))
    assert [store.claim_next().job_id for _ in range(4)] == ["first", "second", "third", None]


def test_a_claim_can_be_limited_to_kinds(store: OctoStore) -> None:
    store.enqueue("build", job_id="b")
    store.enqueue("test", job_id="t")
    assert store.claim_next(kinds=["test", "lint"]).job_id == "t"
    assert store.claim_next(kinds=["test"]).status == "empty"
    with pytest.raises(InvalidInput):
        store.claim_next(kinds=[])


def test_a_kind_that_is_named_twice_counts_once(store: OctoStore) -> None:
    store.enqueue("test", job_id="t", delay=60)
    status = store.claim_next(kinds=["test", "test"]).queue_status
    assert status is not None
    assert (status.ready, status.later) == (0, 1)


def test_a_known_job_id_changes_nothing(store: OctoStore) -> None:
    store.enqueue("build", 1, job_id="job")
    again = store.enqueue("build", 2, job_id="job")
    assert (again.created, again.status) == (False, "queued")
    assert store.get_job("job").payload == 1


def test_failures_are_retried_with_backoff_and_then_wait_for_a_person(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="job", max_attempts=3)
    for delay in (1, 2):
        reply = store.release_job("job", lease(store.claim_next()), outcome="failed", error="broken")
        assert (reply.available_at - reply.released_at).total_seconds() == delay
        assert store.claim_next().status == "empty"
        system.advance(delay)
    store.release_job("job", lease(store.claim_next()), outcome="failed", error="broken")
    (dead,) = store.dead_jobs()
    assert (dead.job_id, dead.attempts, dead.error) == ("job", 3, "broken")
    assert store.claim_job("job").status == "dead"
    assert store.requeue("job").status == "queued"
    assert store.dead_jobs() == []
    assert store.claim_next().attempt == 1


def test_a_deferral_is_not_a_failure(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="job", max_attempts=1)
    store.release_job("job", lease(store.claim_next()), outcome="deferred", retry_after=900)
    reply = store.claim_job("job")
    assert (reply.status, reply.retry_after_ms) == ("delayed", 900_000)
    system.advance(900)
    assert store.claim_next().attempt == 1


def test_a_dead_worker_uses_up_an_attempt(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="job", max_attempts=2)
    store.claim_next(ttl=10)
    system.advance(11)
    successor = store.claim_next(ttl=10)
    assert (successor.attempt, successor.previous[0].how) == (2, "expired")
    system.advance(10)
    assert [job.job_id for job in store.dead_jobs()] == ["job"]


def test_a_successor_gets_everything_that_a_dead_worker_left(system: System) -> None:
    """In the same transaction that finds the worker dead."""
    store = system.store
    session = store.open_session(ttl=10)
    for job_id, session_id in (("task-1", None), ("task-2", session.session_id)):
        store.enqueue("build", {"for": job_id}, job_id=job_id)
        dead = store.claim_next(ttl=10, session_id=session_id)
        store.checkpoint_job(job_id, lease(dead), {"reached": job_id})
    system.advance(60)
    for job_id in ("task-1", "task-2"):
        successor = system.other.claim_next()
        assert (successor.job_id, successor.payload, successor.checkpoint) == (
            job_id,
            {"for": job_id},
            {"reached": job_id},
        )


def test_a_queued_or_claimed_job_can_be_cancelled(store: OctoStore) -> None:
    store.enqueue("build", job_id="job")
    assert store.cancel("job").last_outcome == "cancelled"
    assert store.claim_next().status == "empty"
    store.requeue("job")
    claim = store.claim_next()
    assert store.cancel("job", reason="not needed").status == "dead"
    with pytest.raises(LeaseLost, match="not needed") as caught:
        store.heartbeat_job("job", lease(claim))
    assert caught.value.ended is not None
    assert caught.value.ended.how == "cancelled"
    assert store.claim_next().status == "empty"


def test_a_queue_with_a_limit_of_one_is_serial(system: System) -> None:
    store = system.store
    store.limit_queue("deploys", 1)
    for number in range(2):
        store.enqueue("deploy", job_id=f"deploy-{number}", queue="deploys")
    first = store.claim_next("deploys")
    assert system.other.claim_next("deploys").status == "empty"
    store.release_job("deploy-0", lease(first), outcome="done")
    assert system.other.claim_next("deploys").job_id == "deploy-1"


def test_work_settles_every_job(store: OctoStore, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(6):
        store.enqueue("square", number, job_id=f"job-{number}", max_attempts=1)

    def handler(claim: object) -> int:
        number: int = claim.payload  # type: ignore[attr-defined]
        if number == 4:
            raise ValueError("four")
        if number == 5:
            raise Deferred(retry_after=60, note="out of quota")
        return number * number

    assert store.work("default", handler, concurrency=2, until_empty=True) == 6
    assert [record.getMessage() for record in caplog.records] == ["job job-4 failed, attempt 1"]
    views = [store.get_job(f"job-{number}") for number in range(6)]
    assert [view.status for view in views] == ["done"] * 4 + ["dead", "queued"]
    assert [view.result for view in views[:4]] == [0, 1, 4, 9]
    assert (views[4].error, views[5].note, views[5].attempts) == ("ValueError: four", "out of quota", 0)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_handler_that_calls_exit_fails_its_job_and_not_the_worker(store: OctoStore, concurrency: int) -> None:
    """Otherwise the job would be the first in line for the next worker, and end that one, too."""
    for name in ("exits", "next"):
        store.enqueue("build", job_id=name, max_attempts=1)

    def handler(claim: object) -> str:
        if claim.job_id == "exits":  # type: ignore[attr-defined]
            sys.exit(3)
        return "built"

    assert store.work("default", handler, concurrency=concurrency, until_empty=True) == 2
    exited, built = store.get_job("exits"), store.get_job("next")
    assert (exited.status, exited.error) == ("dead", "SystemExit: 3")
    assert (built.status, built.result) == ("done", "built")


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_handler_that_awaits_something_cancelled_fails_its_job_and_not_the_worker(
    store: OctoStore, concurrency: int
) -> None:
    for name in ("cancelled", "next"):
        store.enqueue("build", job_id=name, max_attempts=1)

    def handler(claim: object) -> str:
        if claim.job_id == "cancelled":  # type: ignore[attr-defined]
            raise asyncio.CancelledError
        return "built"

    assert store.work("default", handler, concurrency=concurrency, until_empty=True) == 2
    cancelled, built = store.get_job("cancelled"), store.get_job("next")
    assert (cancelled.status, cancelled.error) == ("dead", "CancelledError")
    assert (built.status, built.result) == ("done", "built")


@pytest.mark.parametrize("concurrency", [1, 3])
def test_work_ends_after_max_jobs(store: OctoStore, concurrency: int) -> None:
    for number in range(6):
        store.enqueue("build", job_id=f"job-{number}", max_attempts=1)

    def handler(claim: object) -> None:
        if claim.job_id == "job-1":  # type: ignore[attr-defined]
            raise Failed("broken")

    assert store.work("default", handler, concurrency=concurrency, max_jobs=4) == 4
    status = store.queue_status("default")
    assert (status.done, status.dead, status.ready, status.claimed) == (3, 1, 2, 0)
    assert store.work("default", handler, until_done=True, max_jobs=100) == 2
    assert store.work("default", handler, until_done=True) == 0


def test_work_refuses_bad_end_conditions(store: OctoStore) -> None:
    with pytest.raises(InvalidInput, match="until_empty"):
        store.work("default", print, until_done=True, until_empty=True)
    with pytest.raises(InvalidInput, match="max_jobs"):
        store.work("default", print, max_jobs=0)


def test_work_with_an_invalid_deferral_counts_as_failed(store: OctoStore) -> None:
    store.enqueue("k", job_id="job", max_attempts=1)

    def handler(_claim: object) -> None:
        raise Deferred(retry_after=-1)

    assert store.work("default", handler, until_empty=True) == 1
    assert "retry_after" in (store.get_job("job").error or "")


def test_work_with_a_result_that_is_too_large_counts_as_failed(store: OctoStore) -> None:
    store.enqueue("big", job_id="job", max_attempts=1)
    assert store.work("default", lambda _claim: "x" * 70_000, until_empty=True) == 1
    view = store.get_job("job")
    assert view.status == "dead"
    assert "result" in (view.error or "")


def test_handlers_by_kind_get_the_jobs_of_their_kinds_and_no_others(store: OctoStore) -> None:
    for kind in ("double", "negate", "other"):
        store.enqueue(kind, 21, job_id=kind)
    handlers: Any = {"double": lambda claim: claim.payload * 2, "negate": lambda claim: -claim.payload}
    assert store.work("default", handlers, until_empty=True) == 2
    assert [store.get_job(kind).result for kind in ("double", "negate", "other")] == [42, -21, None]
    assert store.get_job("other").attempts == 0


def test_handlers_by_kind_are_checked_before_anything_is_claimed(store: OctoStore) -> None:
    handlers: Any = {"build": "make"}
    with pytest.raises(InvalidInput, match="handler for kind 'build' must be a function of one claim, not str"):
        store.work("default", handlers)
    with pytest.raises(InvalidInput, match="kinds includes 'test', which has no handler"):
        store.work("default", {"build": print}, kinds=["test"])
    with pytest.raises(InvalidInput, match="handler must not be an empty dict"):
        store.work("default", {})


def test_a_delay_is_counted_by_the_clock_of_the_store(system: System) -> None:
    store = system.store
    reply = store.enqueue("remind", job_id="job", delay=90)
    assert reply.status == "queued"
    assert store.claim_next().status == "empty"
    system.advance(89)
    assert store.claim_next().status == "empty"
    assert store.enqueue("remind", job_id="job", delay=900).available_at == reply.available_at, "nothing changes"
    system.advance(1)
    assert store.claim_next().job_id == "job"


def test_a_delay_cannot_be_combined_with_a_time(store: OctoStore) -> None:
    with pytest.raises(InvalidInput, match=r"delay\w* cannot be combined with run_at"):
        store.enqueue("remind", delay=1, run_at=datetime(2030, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidInput, match="delay"):
        store.enqueue("remind", delay=-1)
    (reply,) = store.enqueue_many([{"kind": "remind", "delay": 60}])
    assert store.get_job(reply.job_id).available_at == reply.available_at


def test_pages_can_be_iterated(store: OctoStore) -> None:
    store.enqueue_many([{"job_id": f"job-{number}"} for number in range(3)], kind="build")
    page = store.list_jobs(limit=2)
    assert [job.job_id for job in page] == ["job-0", "job-1"]
    assert [event.type for event in store.list_events(limit=2)] == ["enqueued", "enqueued"]
    assert not list(store.list_jobs(prefix="none"))
