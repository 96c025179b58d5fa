"""Asking an owner to stop: it learns of it with its next heartbeat, logged once, and decides what to do."""

from typing import Any

import pytest

from octostore.core.commands import (
    CancelJob,
    ClaimJob,
    ClaimNext,
    CloseSession,
    Enqueue,
    ForceReleaseJob,
    HandOverSession,
    HeartbeatJob,
    KeepSessionAlive,
    OpenSession,
    ReleaseJob,
    RequestStop,
    RequeueJob,
    Undo,
)
from octostore.core.errors import Conflict, LeaseLost, NotFound
from octostore.core.model import Outcome
from octostore.core.moments import to_datetime
from octostore.core.questions import GetJob
from octostore.core.replies import ClaimReply
from tests.support.world import World

ASK = RequestStop(job_id="task", reason="the branch is gone", principal="root")
DRAIN = CancelJob(job_id="task", reason="not needed", drain=True, principal="root")


def claimed(world: World, **terms: Any) -> ClaimReply:
    world.do(Enqueue(job_id="task", kind="build", max_attempts=2))
    return world.do(ClaimJob(job_id="task", owner="ann", principal="ann", **terms))


def heartbeat(claim: ClaimReply) -> HeartbeatJob:
    return HeartbeatJob(job_id="task", lease_id=claim.lease_id or "", principal="ann")


def test_an_owner_learns_of_a_stop_with_its_next_heartbeat_and_every_later_one(world: World) -> None:
    claim = claimed(world)
    assert world.do(heartbeat(claim)).stop_requested is None
    asked_at = to_datetime(world.clock.now_ms)
    view = world.do(ASK)
    assert view.status == "claimed", "the owner keeps it"
    assert view.claim is not None
    assert view.claim.stop_requested is not None
    assert view.claim.stop_requested.delivered_at is None
    world.advance(3)
    for _ in range(2):
        stop = world.do(heartbeat(claim)).stop_requested
        assert stop is not None
        assert (stop.reason, stop.requested_by, stop.requested_at) == ("the branch is gone", "root", asked_at)
        assert stop.delivered_at == to_datetime(world.clock.now_ms)
    requested, delivered = world.events()[-2:]
    assert (requested.type, requested.actor, requested.agent) == ("stop_requested", "root", "ann")
    assert (delivered.type, delivered.actor, delivered.agent) == ("stop_delivered", "ann", "ann")
    assert requested.reason == "the branch is gone"
    owner = world.ask(GetJob(job_id="task")).claim
    assert owner is not None
    assert owner.stop_requested == stop


def test_asking_twice_changes_nothing_but_asking_for_more_does(world: World) -> None:
    claim = claimed(world)
    world.batch([ASK, ASK, RequestStop(job_id="task", reason="another")])
    world.do(heartbeat(claim))
    world.batch([DRAIN, DRAIN, ASK])
    stop = world.do(heartbeat(claim)).stop_requested
    assert stop is not None
    assert (stop.cancels, stop.reason) == (True, "not needed")
    assert world.event_types()[2:] == ["stop_requested", "stop_delivered"] * 2


@pytest.mark.parametrize("status", ["queued", "free", "done", "dead"])
def test_only_an_owner_can_be_asked(world: World, status: str) -> None:
    with pytest.raises(NotFound):
        world.do(ASK)
    if status == "queued":
        world.do(Enqueue(job_id="task", kind="build"))
    else:
        claim = world.do(ClaimJob(job_id="task", owner="ann"))
        world.do(
            ReleaseJob(job_id="task", lease_id=claim.lease_id or "", outcome="done" if status == "done" else "released")
        )
    if status == "dead":
        world.do(ClaimJob(job_id="task", owner="ann"))
        world.do(CancelJob(job_id="task"))
    with pytest.raises(Conflict, match="there is no owner to stop") as caught:
        world.do(ASK)
    assert caught.value.status == status
    assert ("use cancel to take it out" in str(caught.value)) == (status == "queued")


@pytest.mark.parametrize(("outcome", "then"), [("released", "queued"), ("failed", "queued"), ("done", "done")])
def test_the_owner_decides_what_becomes_of_the_job(world: World, outcome: Outcome, then: str) -> None:
    claim = claimed(world)
    world.do(ASK)
    release = ReleaseJob(job_id="task", lease_id=claim.lease_id or "", outcome=outcome)
    assert world.do(release).status == then
    world.do(RequeueJob(job_id="task"))
    successor = world.do(ClaimJob(job_id="task", owner="bob", again=True))
    assert world.do(heartbeat(successor)).stop_requested is None, "only the last owner was asked"


@pytest.mark.parametrize("way", ["released", "failed", "deferred", "expired", "forced", "undone"])
@pytest.mark.parametrize("is_queued", [True, False])
def test_a_drained_job_is_cancelled_when_its_claim_ends(world: World, way: str, is_queued: bool) -> None:
    """In one step: a waiting caller finds it dead."""
    claim = claimed(world) if is_queued else world.do(ClaimJob(job_id="task", owner="ann"))
    assert world.do(DRAIN).status == "claimed"
    lease_id = claim.lease_id or ""
    ends: dict[str, Any] = {
        "expired": HeartbeatJob(job_id="other", lease_id=lease_id),
        "forced": ForceReleaseJob(job_id="task"),
        "undone": Undo(job_id="task", lease_id=lease_id),
    }
    if way == "expired":
        world.advance(120)
    end = ends.get(way) or ReleaseJob(job_id="task", lease_id=lease_id, outcome=way, error="why")  # type: ignore[arg-type]
    ended, following = world.batch([end, ClaimJob(job_id="task", owner="bob")])
    assert (following.status, following.error) == ("dead", "not needed")
    if isinstance(end, ReleaseJob):
        assert ended.status == "dead"
        assert world.do(end) == ended, "a repeated release gets the same reply"
    *_, cancelled = world.events()
    assert (cancelled.type, cancelled.actor, cancelled.reason) == ("cancelled", "root", "not needed")
    view = world.ask(GetJob(job_id="task"))
    assert (view.status, view.last_outcome, view.error) == ("dead", "cancelled", "not needed")
    assert world.do(RequeueJob(job_id="task")).attempts == 0


def test_a_drained_job_that_is_done_stays_done(world: World) -> None:
    claim = claimed(world)
    world.do(DRAIN)
    assert world.do(ReleaseJob(job_id="task", lease_id=claim.lease_id or "", outcome="done")).status == "done"
    assert world.event_types()[-1] == "done"


def test_a_job_whose_owner_does_not_stop_can_still_be_cancelled(world: World) -> None:
    claim = claimed(world)
    world.do(DRAIN)
    world.do(CancelJob(job_id="task", reason="now"))
    with pytest.raises(LeaseLost, match=r"\(cancelled: 'now'\)"):
        world.do(heartbeat(claim))
    assert world.event_types()[-1] == "cancelled"
    assert world.event_types().count("cancelled") == 1


def test_draining_an_unclaimed_job_cancels_it(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build"))
    assert world.do(DRAIN).status == "dead"


def test_a_keepalive_lists_the_jobs_of_its_session_that_should_stop(world: World) -> None:
    opened = world.do(OpenSession(session_id="s", agent="ann", principal="ann"))
    alive = KeepSessionAlive(session_id="s", lease_id=opened.lease_id, principal="ann")
    for job_id in ("one", "two", "task"):
        world.do(ClaimJob(job_id=job_id, owner="ann", session_id="s", principal="ann"))
    assert world.do(alive).stop_requested == {}
    world.do(ASK)
    for _ in range(2):
        stops = world.do(alive).stop_requested
        assert [(name, stop.reason) for name, stop in stops.items()] == [("task", "the branch is gone")]
    assert world.event_types()[-2:] == ["stop_requested", "stop_delivered"]
    assert [event.session_id for event in world.events()[-2:]] == ["s", "s"]


@pytest.mark.parametrize("ask", [ASK, DRAIN])
def test_a_hand_over_passes_the_stop_request_on(world: World, ask: Any) -> None:
    opened = world.do(OpenSession(session_id="s", agent="ann"))
    world.do(ClaimJob(job_id="task", owner="ann", session_id="s"))
    world.batch([ask, KeepSessionAlive(session_id="s", lease_id=opened.lease_id)])
    world.do(HandOverSession(session_id="s", lease_id=opened.lease_id, to_agent="bob"))
    taken = world.do(OpenSession(session_id="s", agent="bob"))
    stop = world.do(KeepSessionAlive(session_id="s", lease_id=taken.lease_id)).stop_requested["task"]
    assert (stop.requested_by, stop.reason, stop.cancels) == ("root", ask.reason, ask is DRAIN)
    requests = [event for event in world.events() if event.type == "stop_requested"]
    assert [event.agent for event in requests] == ["ann", "bob"]
    world.do(CloseSession(session_id="s", lease_id=taken.lease_id))
    assert world.ask(GetJob(job_id="task")).status == ("dead" if ask is DRAIN else "free")


def test_a_drained_job_does_not_go_back_to_its_queue(world: World) -> None:
    claim = claimed(world)
    _, _, following = world.batch(
        [DRAIN, ReleaseJob(job_id="task", lease_id=claim.lease_id or ""), ClaimNext(owner="bob")]
    )
    assert following.status == "empty"
