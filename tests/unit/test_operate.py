"""What operators do: each call can be repeated, and logs one event."""

from typing import Any

import pytest

from octostore.core.commands import (
    CancelJob,
    CheckpointJob,
    ClaimJob,
    ClaimNext,
    DiscardJob,
    Enqueue,
    ForceReleaseJob,
    HeartbeatJob,
    ReleaseJob,
    RequeueJob,
    SetQueue,
)
from octostore.core.errors import Conflict, LeaseLost, NotFound
from tests.support.world import World


def test_cancelling_takes_a_job_out_of_its_queue(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build"))
    view = world.do(CancelJob(job_id="task", reason="not needed"))
    assert (view.status, view.last_outcome) == ("dead", "cancelled")
    assert world.do(ClaimNext(owner="w")).status == "empty"
    reply = world.do(ClaimJob(job_id="task", owner="w"))
    assert (reply.status, reply.error) == ("dead", "not needed")
    world.do(CancelJob(job_id="task"))
    assert world.event_types() == ["enqueued", "cancelled"]


@pytest.mark.parametrize("is_queued", [True, False])
def test_cancelling_takes_a_job_away_from_its_owner(world: World, is_queued: bool) -> None:
    """In one step: a waiting caller finds it dead, never free."""
    if is_queued:
        world.do(Enqueue(job_id="task", kind="build", max_attempts=2))
    claim = world.do(ClaimJob(job_id="task", owner="ann"))
    cancelled, by_name, next_in_line = world.batch(
        [
            CancelJob(job_id="task", reason="not needed", principal="root"),
            ClaimJob(job_id="task", owner="bob"),
            ClaimNext(owner="bob"),
        ]
    )
    assert (cancelled.status, cancelled.last_outcome, cancelled.error) == ("dead", "cancelled", "not needed")
    assert (cancelled.claim, cancelled.attempts) == (None, 0)
    assert (by_name.status, by_name.error, next_in_line.status) == ("dead", "not needed", "empty")
    assert (by_name.previous[0].owner, by_name.previous[0].how) == ("ann", "cancelled")
    with pytest.raises(LeaseLost, match=r"UTC \(cancelled: 'not needed'\); the job is dead") as caught:
        world.do(HeartbeatJob(job_id="task", lease_id=claim.lease_id or ""))
    assert caught.value.ended is not None
    assert (caught.value.ended.how, caught.value.ended.reason) == ("cancelled", "not needed")
    ended = world.events()[-1]
    assert (ended.type, ended.actor, ended.owner, ended.reason) == ("cancelled", "root", "ann", "not needed")
    world.do(CancelJob(job_id="task"))
    assert world.event_types()[-2:] == ["claimed", "cancelled"], "once"
    assert world.do(RequeueJob(job_id="task")).status == ("queued" if is_queued else "free")
    assert world.do(ClaimJob(job_id="task", owner="bob")).attempt == 1


def test_cancelling_makes_room_in_its_queue(world: World) -> None:
    world.do(SetQueue(queue="default", max_claimed=1))
    for name in ("one", "two"):
        world.do(Enqueue(job_id=name, kind="build"))
    claim, _, following = world.batch([ClaimNext(owner="ann"), CancelJob(job_id="one"), ClaimNext(owner="bob")])
    assert (claim.job_id, following.job_id) == ("one", "two")


@pytest.mark.parametrize("status", ["free", "done"])
def test_only_a_queued_or_claimed_job_can_be_cancelled(world: World, status: str) -> None:
    claim = world.do(ClaimJob(job_id="job", owner="ann"))
    outcome: Any = "released" if status == "free" else "done"
    world.do(ReleaseJob(job_id="job", lease_id=claim.lease_id or "", outcome=outcome))
    with pytest.raises(Conflict, match="only a queued or claimed job") as caught:
        world.do(CancelJob(job_id="job"))
    assert caught.value.status == status


def test_requeueing_resets_the_attempts_of_a_dead_job(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build", max_attempts=1))
    claim = world.do(ClaimNext(owner="ann"))
    world.do(ReleaseJob(job_id="task", lease_id=claim.lease_id or "", outcome="failed", error="no"))
    view = world.do(RequeueJob(job_id="task"))
    assert (view.status, view.attempts) == ("queued", 0)
    world.do(RequeueJob(job_id="task"))
    assert world.event_types()[-1] == "requeued"
    assert world.event_types().count("requeued") == 1
    again = world.do(ClaimNext(owner="bob"))
    assert (again.job_id, again.attempt, again.previous[0].error) == ("task", 1, "no")


def test_requeueing_with_keep_attempts_allows_one_more_attempt(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build", max_attempts=2))
    for _ in range(2):
        world.advance(1_000)
        claim = world.do(ClaimNext(owner="ann"))
        world.do(ReleaseJob(job_id="task", lease_id=claim.lease_id or "", outcome="failed"))
    view = world.do(RequeueJob(job_id="task", keep_attempts=True))
    assert (view.status, view.attempts) == ("queued", 2)
    claim = world.do(ClaimNext(owner="bob"))
    assert claim.attempt == 3
    reply = world.do(ReleaseJob(job_id="task", lease_id=claim.lease_id or "", outcome="failed"))
    assert reply.status == "dead"


def test_discarding_a_dead_job_frees_its_name(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build", payload=b"1"))
    world.do(CancelJob(job_id="task"))
    view = world.do(DiscardJob(job_id="task", reason="the branch is gone"))
    assert (view.status, view.last_outcome, view.error) == ("free", "discarded", "the branch is gone")
    assert (view.queue, view.kind, view.payload) == (None, None, None)
    world.do(DiscardJob(job_id="task"))
    assert world.event_types() == ["enqueued", "cancelled", "discarded"]
    assert world.do(Enqueue(job_id="task", kind="test")).created
    assert world.do(ClaimNext(owner="ann")).kind == "test"


def test_discarding_a_job_discards_its_checkpoint(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build", max_attempts=1))
    claim = world.do(ClaimNext(owner="ann"))
    world.do(CheckpointJob(job_id="task", lease_id=claim.lease_id or "", data=b"1"))
    world.do(ReleaseJob(job_id="task", lease_id=claim.lease_id or "", outcome="failed"))
    world.do(DiscardJob(job_id="task"))
    assert world.do(ClaimJob(job_id="task", owner="bob")).checkpoint is None


@pytest.mark.parametrize(
    ("status", "hint"), [("queued", "cancel it first"), ("claimed", "is claimed"), ("done", "is done")]
)
def test_only_a_dead_job_can_be_discarded(world: World, status: str, hint: str) -> None:
    world.do(Enqueue(job_id="task", kind="build"))
    if status != "queued":
        claim = world.do(ClaimNext(owner="ann"))
        if status == "done":
            world.do(ReleaseJob(job_id="task", lease_id=claim.lease_id or "", outcome="done"))
    with pytest.raises(Conflict, match=hint):
        world.do(DiscardJob(job_id="task"))
    with pytest.raises(NotFound):
        world.do(DiscardJob(job_id="never"))


def test_requeueing_lets_a_retry_run_now_and_keeps_its_attempts(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build"))
    claim = world.do(ClaimNext(owner="ann"))
    world.do(ReleaseJob(job_id="task", lease_id=claim.lease_id or "", outcome="failed"))
    assert world.do(ClaimNext(owner="bob")).status == "empty"
    assert world.do(RequeueJob(job_id="task")).attempts == 1
    assert world.do(ClaimNext(owner="bob")).attempt == 2


def test_a_claimed_job_cannot_be_requeued(world: World) -> None:
    world.do(ClaimJob(job_id="job", owner="ann"))
    with pytest.raises(Conflict, match="ann"):
        world.do(RequeueJob(job_id="job"))


def test_a_forced_release_is_not_an_attempt_and_keeps_the_place_in_line(world: World) -> None:
    world.do(Enqueue(job_id="first", kind="build"))
    world.do(Enqueue(job_id="second", kind="build"))
    world.do(ClaimNext(owner="ann"))
    view = world.do(ForceReleaseJob(job_id="first", reason="stuck"))
    assert (view.status, view.attempts) == ("queued", 0)
    world.do(ForceReleaseJob(job_id="first"))
    assert world.event_types().count("force_released") == 1
    assert world.do(ClaimNext(owner="bob")).job_id == "first"


@pytest.mark.parametrize("command", [CancelJob, RequeueJob, ForceReleaseJob])
def test_an_unknown_job_is_not_found(world: World, command: type[CancelJob | RequeueJob | ForceReleaseJob]) -> None:
    with pytest.raises(NotFound):
        world.do(command(job_id="unknown"))
    assert world.event_types() == []


def test_the_log_says_which_operator_did_what_and_why(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build"))
    held = world.do(ClaimNext(owner="ann", principal="ann"))
    terms: dict[str, Any] = {"job_id": "task", "principal": "root"}
    world.do(ForceReleaseJob(**terms, reason="stuck"))
    world.do(CancelJob(**terms, reason="not needed"))
    world.do(RequeueJob(**terms, reason="needed after all"))
    world.do(CancelJob(**terms))
    world.do(DiscardJob(**terms, reason="the branch is gone"))
    assert [(event.type, event.actor, event.reason) for event in world.events()[2:]] == [
        ("force_released", "root", "stuck"),
        ("cancelled", "root", "not needed"),
        ("requeued", "root", "needed after all"),
        ("cancelled", "root", None),
        ("discarded", "root", "the branch is gone"),
    ]
    with pytest.raises(LeaseLost, match=r"force-released: 'stuck'\)") as caught:
        world.do(HeartbeatJob(job_id="task", lease_id=held.lease_id or ""))
    assert caught.value.ended is not None
    assert caught.value.ended.reason == "stuck"


def test_discarding_resets_the_attempts(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build", max_attempts=1))
    claim = world.do(ClaimNext(owner="ann"))
    world.do(ReleaseJob(job_id="task", lease_id=claim.lease_id or "", outcome="failed"))
    assert world.do(DiscardJob(job_id="task")).attempts == 0
    assert world.do(ClaimJob(job_id="task", owner="bob")).attempt == 1


@pytest.mark.parametrize("status", ["queued", "claimed"])
def test_a_discarded_job_can_be_discarded_again_only_when_it_is_dead_again(world: World, status: str) -> None:
    world.do(Enqueue(job_id="task", kind="build"))
    world.do(CancelJob(job_id="task"))
    world.do(DiscardJob(job_id="task"))
    world.do(Enqueue(job_id="task", kind="build"))
    if status == "claimed":
        world.do(ClaimNext(owner="ann"))
    with pytest.raises(Conflict) as caught:
        world.do(DiscardJob(job_id="task"))
    assert caught.value.status == status
