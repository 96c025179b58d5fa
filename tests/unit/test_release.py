"""Ending a claim: what becomes of the job, and what a repeated release does."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octostore.core.commands import (
    CancelJob,
    CheckpointJob,
    ClaimJob,
    ClaimNext,
    CloseSession,
    Enqueue,
    HeartbeatJob,
    OpenSession,
    ReleaseJob,
    RequeueJob,
    SetQueue,
)
from octostore.core.errors import InvalidInput, LeaseLost
from octostore.core.moments import to_datetime
from octostore.core.questions import GetJob
from octostore.core.retry import RetryPolicy
from tests.support.world import World


def claimed(world: World, **terms: Any) -> str:
    lease_id = world.do(ClaimJob(job_id="job", owner="ann", **terms)).lease_id
    assert lease_id is not None
    return lease_id


def enqueued(world: World, **terms: Any) -> None:
    world.do(Enqueue(job_id="job", kind="build", **terms))


def release(world: World, lease_id: str, outcome: Any = "released", **more: Any) -> Any:
    return world.do(ReleaseJob(job_id="job", lease_id=lease_id, outcome=outcome, **more))


@pytest.mark.parametrize(
    ("outcome", "more"),
    [("released", {}), ("done", {"result": b"1"}), ("failed", {"error": "no"}), ("deferred", {"retry_after": 9})],
)
@pytest.mark.parametrize("is_enqueued", [False, True])
def test_the_same_lease_can_repeat_its_release(
    world: World, outcome: str, more: dict[str, Any], is_enqueued: bool
) -> None:
    if is_enqueued:
        enqueued(world)
    lease_id = claimed(world)
    first = release(world, lease_id, outcome, **more)
    events = world.event_types()
    world.advance(1)
    assert release(world, lease_id, outcome, **more) == first
    assert world.event_types() == events


def test_the_same_lease_can_repeat_its_release_after_a_successor_claimed(world: World) -> None:
    lease_id = claimed(world)
    first = release(world, lease_id)
    claimed(world)
    assert release(world, lease_id) == first


def test_the_same_lease_cannot_change_its_outcome(world: World) -> None:
    lease_id = claimed(world)
    release(world, lease_id, "done")
    with pytest.raises(LeaseLost) as caught:
        release(world, lease_id, "failed")
    assert caught.value.ended is not None
    assert caught.value.ended.how == "done"


def test_another_lease_cannot_end_the_claim(world: World) -> None:
    old = claimed(world, ttl=1)
    world.advance(1)
    claimed(world)
    with pytest.raises(LeaseLost) as caught:
        release(world, old, "done")
    assert caught.value.holder is not None
    assert world.ask(GetJob(job_id="job")).status == "claimed"


def test_a_lock_is_free_after_every_outcome_but_done(world: World) -> None:
    for outcome in ("released", "failed"):
        assert release(world, claimed(world), outcome).status == "free"
    assert release(world, claimed(world), "deferred", retry_after=0).status == "free"
    assert release(world, claimed(world), "done").status == "done"


def test_a_failed_job_is_retried_with_growing_delays_until_it_is_dead() -> None:
    retry = RetryPolicy(base_ms=1_000, factor=2, cap_ms=3_000, jitter=0)
    world = World(retry=retry)
    enqueued(world, max_attempts=4)
    delays = []
    for _ in range(3):
        reply = release(world, claimed(world), "failed", error="no")
        assert reply.status == "queued"
        delay = (reply.available_at - reply.released_at).total_seconds()
        delays.append(delay)
        assert world.do(ClaimJob(job_id="job", owner="bob")).status == "delayed"
        world.advance(delay)
    assert delays == [1, 2, 3]
    assert release(world, claimed(world), "failed", error="for good").status == "dead"
    reply = world.do(ClaimJob(job_id="job", owner="bob"))
    assert (reply.status, reply.error) == ("dead", "for good")
    assert world.ask(GetJob(job_id="job")).attempts == 4


def test_the_default_is_five_attempts(world: World) -> None:
    enqueued(world)
    for _ in range(5):
        status = release(world, claimed(world), "failed").status
        world.advance(1_000)
    assert status == "dead"


@pytest.mark.parametrize(("outcome", "more"), [("deferred", {"retry_after": 0}), ("released", {})])
def test_a_deferral_or_a_release_is_not_an_attempt(world: World, outcome: str, more: dict[str, Any]) -> None:
    enqueued(world, max_attempts=2)
    for _ in range(5):
        assert release(world, claimed(world), outcome, **more).status == "queued"
    assert world.ask(GetJob(job_id="job")).attempts == 0


def test_a_deferred_job_waits_for_its_retry_after(world: World) -> None:
    enqueued(world)
    release(world, claimed(world), "deferred", retry_after=900)
    reply = world.do(ClaimJob(job_id="job", owner="bob"))
    assert (reply.status, reply.retry_after_ms) == ("delayed", 900_000)


def test_a_failure_may_say_when_to_retry(world: World) -> None:
    enqueued(world)
    reply = release(world, claimed(world), "failed", retry_after=77)
    assert (reply.available_at - reply.released_at).total_seconds() == 77


def test_the_checkpoint_goes_to_the_successor_until_the_job_is_done(world: World) -> None:
    enqueued(world)
    lease_id = claimed(world)
    world.do(CheckpointJob(job_id="job", lease_id=lease_id, data=b'{"step":3}'))
    release(world, lease_id, "failed", retry_after=0)
    reply = world.do(ClaimJob(job_id="job", owner="bob"))
    assert reply.checkpoint == {"step": 3}
    assert reply.lease_id is not None
    release(world, reply.lease_id, "done")
    assert world.do(ClaimJob(job_id="job", owner="eve", again=True)).checkpoint is None


def test_without_a_note_the_last_progress_becomes_the_note(world: World) -> None:
    lease_id = claimed(world)
    world.do(HeartbeatJob(job_id="job", lease_id=lease_id, note="at step 3"))
    release(world, lease_id)
    assert world.do(ClaimJob(job_id="job", owner="bob")).note == "at step 3"


def test_a_note_stays_until_the_next_one_or_until_the_job_is_done(world: World) -> None:
    release(world, claimed(world), note="watch out")
    release(world, claimed(world))
    lease_id = claimed(world)
    assert world.ask(GetJob(job_id="job")).note == "watch out"
    release(world, lease_id, "done")
    assert world.ask(GetJob(job_id="job")).note is None


def test_a_percentage_alone_keeps_the_note(world: World) -> None:
    lease_id = claimed(world)
    world.do(HeartbeatJob(job_id="job", lease_id=lease_id, note="step 3"))
    world.do(HeartbeatJob(job_id="job", lease_id=lease_id, percent=60))
    owner = world.ask(GetJob(job_id="job")).claim
    assert owner is not None
    assert owner.progress is not None
    assert (owner.progress.note, owner.progress.percent) == ("step 3", 60)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"outcome": "finished"}, "outcome"),
        ({"outcome": "released", "result": b"1"}, "result"),
        ({"outcome": "done", "retry_after": 5}, "retry_after"),
    ],
)
def test_a_release_that_makes_no_sense_is_refused(more: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ReleaseJob(job_id="job", lease_id="lease", **more)
    assert caught.value.field == field


@pytest.mark.parametrize("way", ["release", "close"])
def test_a_released_task_keeps_its_place_in_line(world: World, way: str) -> None:
    enqueued(world)
    world.advance(1)
    world.do(Enqueue(job_id="younger", kind="build"))
    world.do(OpenSession(session_id="s", agent="ann"))
    claim = world.do(ClaimNext(owner="ann", session_id="s"))
    world.advance(60)
    if way == "close":
        world.do(CloseSession(session_id="s", lease_id=None))
    else:
        release(world, claim.lease_id or "")
    assert world.do(ClaimNext(owner="bob")).job_id == "job"


def test_the_log_names_the_caller_and_not_the_owner(world: World) -> None:
    world.do(SetQueue(queue="default", max_claimed=5, principal="root"))
    enqueued(world, principal="root")
    lease_id = claimed(world, principal="ann")
    release(world, lease_id, "failed", error="no", principal="helper")
    session = world.do(OpenSession(session_id="s", agent="ann", principal="ann"))
    world.do(ClaimJob(job_id="bound", owner="ann", session_id="s", principal="ann"))
    world.do(CloseSession(session_id="ann/s", lease_id=session.lease_id, principal="helper"))
    assert [(event.type, event.actor, event.queue, event.reason) for event in world.events()] == [
        ("queue_limited", "root", "default", None),
        ("enqueued", "root", "default", None),
        ("claimed", "ann", "default", None),
        ("failed", "helper", "default", "no"),
        ("session_opened", "ann", None, None),
        ("claimed", "ann", None, None),
        ("released", "helper", None, "its session was closed"),
        ("session_closed", "helper", None, None),
    ]


def test_releasing_a_lock_resets_its_failures(world: World) -> None:
    for _ in range(2):
        release(world, claimed(world), "failed")
    third = world.do(ClaimJob(job_id="job", owner="ann"))
    assert third.attempt == 3
    release(world, third.lease_id or "")
    assert world.ask(GetJob(job_id="job")).attempts == 0
    assert world.do(ClaimJob(job_id="job", owner="ann")).attempt == 1


def test_a_released_task_keeps_its_failures(world: World) -> None:
    enqueued(world)
    release(world, claimed(world), "failed", retry_after=0)
    release(world, claimed(world))
    assert world.do(ClaimJob(job_id="job", owner="ann")).attempt == 2


def test_a_done_job_shows_its_attempts_and_starts_over(world: World) -> None:
    release(world, claimed(world), "failed", error="no")
    release(world, claimed(world), "done")
    view = world.ask(GetJob(job_id="job"))
    assert (view.attempts, view.error, view.available_at) == (2, None, None)
    assert world.do(ClaimJob(job_id="job", owner="ann", again=True)).attempt == 1


@pytest.mark.parametrize("outcome", ["failed", "deferred"])
def test_a_job_that_nobody_enqueued_waits_for_its_retry_after_too(world: World, outcome: str) -> None:
    release(world, claimed(world), outcome, retry_after=7)
    reply = world.do(ClaimJob(job_id="job", owner="bob"))
    assert (reply.status, reply.retry_after_ms) == ("delayed", 7_000)
    world.advance(7)
    assert world.do(ClaimJob(job_id="job", owner="bob")).status == "claimed"


@pytest.mark.parametrize("is_enqueued", [False, True])
def test_a_deferred_job_waits_for_a_minute_by_default(world: World, is_enqueued: bool) -> None:
    if is_enqueued:
        enqueued(world)
    release(world, claimed(world), "deferred")
    assert world.do(ClaimJob(job_id="job", owner="bob")).retry_after_ms == 60_000


@settings(max_examples=40)
@given(backoff=st.integers(0, 60), lock_delay=st.integers(0, 30), outcome=st.sampled_from(["failed", "expired"]))
def test_neither_a_backoff_nor_a_lock_delay_shortens_the_other(backoff: int, lock_delay: int, outcome: str) -> None:
    world = World(retry=RetryPolicy(base_ms=backoff * 1_000, jitter=0))
    enqueued(world)
    lease_id = claimed(world, ttl=10, lock_delay=lock_delay)
    if outcome == "failed":
        release(world, lease_id, "failed")
    else:
        world.advance(10)
    available_at = world.ask(GetJob(job_id="job")).available_at
    assert available_at == to_datetime(world.clock.now_ms + max(backoff, lock_delay) * 1_000)


@pytest.mark.parametrize("is_enqueued", [False, True])
def test_a_later_run_does_not_show_an_old_result(world: World, is_enqueued: bool) -> None:
    if is_enqueued:
        enqueued(world)
    release(world, claimed(world), "done", result=b"1")
    world.do(RequeueJob(job_id="job"))
    assert world.ask(GetJob(job_id="job")).result is None, "it is not done"
    release(world, claimed(world), "done")
    assert world.ask(GetJob(job_id="job")).result is None
    assert world.do(ClaimJob(job_id="job", owner="bob")).result is None


def test_a_cancelled_job_does_not_show_an_old_result(world: World) -> None:
    enqueued(world)
    release(world, claimed(world), "done", result=b"1")
    world.do(RequeueJob(job_id="job"))
    world.do(CancelJob(job_id="job"))
    reply = world.do(ClaimJob(job_id="job", owner="bob"))
    assert (reply.status, reply.result) == ("dead", None)
