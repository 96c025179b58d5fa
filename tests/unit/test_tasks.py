"""Tasks of sessions: a session is acquired with one task, and freed with it."""

from typing import Any

import pytest

from octostore.core.commands import (
    CheckpointJob,
    ClaimJob,
    ClaimTask,
    CloseSession,
    Enqueue,
    HandOverSession,
    KeepSessionAlive,
    OpenSession,
    Recover,
    ReleaseJob,
    ReleaseTask,
    SaveSession,
    SetQueue,
)
from octostore.core.errors import InvalidInput, LeaseLost, LimitExceeded, NotFound
from octostore.core.model import Outcome
from octostore.core.questions import GetJob, GetSession, ListSessions
from octostore.core.replies import ClaimReply, ReleaseReply
from octostore.core.undo import undo_of
from octostore.core.waiting import is_worth_waiting
from tests.support.world import World


def enqueue(world: World, job_id: str = "task", **terms: Any) -> None:
    world.do(Enqueue(**{"job_id": job_id, "kind": "build", "queue": "tasks", **terms}))


def claim(world: World, owner: str = "ann", **terms: Any) -> ClaimReply:
    return world.do(ClaimTask(**{"session_id": "s", "owner": owner, "queues": ("tasks",), "ttl": 30, **terms}))


def release(world: World, claimed: ClaimReply, outcome: Outcome = "done", **ending: Any) -> ReleaseReply:
    names = {"session_id": "s", "job_id": claimed.job_id or "", "lease_id": claimed.lease_id or ""}
    return world.do(ReleaseTask(**{**names, "outcome": outcome, **ending}))


def test_claiming_a_task_opens_its_session_and_releasing_it_closes_that(world: World) -> None:
    enqueue(world, payload=b'{"issue":1842}')
    claimed = claim(world)
    assert (claimed.status, claimed.job_id, claimed.payload) == ("claimed", "task", {"issue": 1842})
    assert claimed.session is not None
    assert claimed.session.lease_id == claimed.lease_id
    assert (claimed.session.agent, claimed.session.phase) == ("ann", "planning")
    assert world.ask(GetSession(session_id="s")).jobs == ["task"]
    assert release(world, claimed, result=b"7").status == "done"
    view = world.ask(GetSession(session_id="s"))
    assert (view.status, view.phase, view.jobs) == ("closed", "idle", [])
    assert world.event_types() == ["enqueued", "session_opened", "claimed", "done", "session_closed"]


def test_without_a_task_nothing_happens(world: World) -> None:
    enqueue(world, run_at=world.clock.now_ms + 5_000)
    reply = claim(world)
    assert (reply.status, reply.retry_after_ms, reply.session) == ("empty", 5_000, None)
    assert world.event_types() == ["enqueued"]


def test_a_session_runs_one_task_at_a_time(world: World) -> None:
    enqueue(world, "one")
    enqueue(world, "two")
    claim(world)
    reply = claim(world, "bob")
    assert (reply.status, reply.owner, reply.session_id, reply.job_id) == ("held", "ann", "s", None)
    assert claim(world).status == "held", "a name authorises nothing"
    assert claim(world, "bob", session_id="t").job_id == "two"


def open_one(world: World, agent: str = "ann", **terms: Any) -> str:
    return world.do(OpenSession(**{"session_id": "s", "agent": agent, "ttl": 30, **terms})).lease_id


def test_an_open_session_claims_its_tasks_one_after_the_other(world: World) -> None:
    lease = open_one(world)
    enqueue(world, "one")
    enqueue(world, "two")
    first = claim(world, lease_id=lease)
    assert (first.job_id, first.session_id, first.session, first.lease_id) == ("one", "s", None, lease)
    second = claim(world, lease_id=lease)
    assert (second.status, second.job_id, second.owner) == ("held", "one", "ann")
    assert claim(world, lease_id=lease, queues=("other",)).job_id == "one", "whichever queue it asks for"
    world.do(ReleaseJob(job_id="one", lease_id=lease, outcome="done"))
    assert claim(world, lease_id=lease).job_id == "two"
    world.do(ReleaseJob(job_id="two", lease_id=lease, outcome="failed"))
    assert claim(world, lease_id=lease).status == "empty"
    assert world.ask(GetSession(session_id="s")).status == "open"


def test_a_job_that_is_only_bound_to_an_open_session_is_not_its_task(world: World) -> None:
    lease = open_one(world)
    enqueue(world, "one")
    enqueue(world, "two")
    world.do(ClaimJob(job_id="one", owner="ann", session_id="s"))
    assert claim(world, lease_id=lease).job_id == "two"


def test_a_task_in_an_open_session_lives_as_long_as_the_session(world: World) -> None:
    lease = open_one(world)
    enqueue(world)
    assert claim(world, lease_id=lease, ttl=1).ttl == 30
    world.advance(20)
    world.do(KeepSessionAlive(session_id="s", lease_id=lease))
    world.advance(20)
    assert world.ask(GetJob(job_id="task")).owner == "ann"
    world.advance(100)
    resumed = open_one(world, "bob")
    assert (claim(world, "bob", lease_id=resumed).job_id, world.ask(GetJob(job_id="task")).attempts) == ("task", 1)


def test_a_task_in_an_open_session_is_handed_over_with_it(world: World) -> None:
    lease = open_one(world)
    enqueue(world)
    claim(world, lease_id=lease)
    world.do(HandOverSession(session_id="s", lease_id=lease, to_agent="bob"))
    with pytest.raises(LeaseLost, match="the session was handed over to 'bob'"):
        claim(world, lease_id=lease)
    taken = open_one(world, "bob")
    held = claim(world, "bob", lease_id=taken)
    assert (held.status, held.job_id, held.owner) == ("held", "task", "bob")


def test_claiming_in_an_open_session_needs_its_lease(world: World) -> None:
    lease = open_one(world)
    enqueue(world)
    assert claim(world).status == "held"
    with pytest.raises(LeaseLost):
        claim(world, lease_id="another")
    with pytest.raises(NotFound):
        claim(world, lease_id="another", principal="guest")
    world.do(CloseSession(session_id="s", lease_id=lease))
    with pytest.raises(LeaseLost, match="the session closed"):
        claim(world, lease_id=lease)


def test_a_claim_in_an_open_session_can_be_replayed_and_undone(world: World) -> None:
    lease = open_one(world)
    enqueue(world)
    first = claim(world, lease_id=lease, request_id="r")
    undo = undo_of(first)
    assert undo is not None
    assert world.do(undo).undone
    assert world.ask(GetSession(session_id="s")).status == "open"
    second = claim(world, lease_id=lease, request_id="r")
    again = claim(world, lease_id=lease, request_id="r")
    assert (again.status, again.replayed, again.fencing_token) == ("claimed", True, second.fencing_token)
    world.do(ReleaseJob(job_id="task", lease_id=lease))
    with pytest.raises(LeaseLost, match="new request_id"):
        claim(world, lease_id=lease, request_id="r")


def test_no_caller_waits_for_its_own_task(world: World) -> None:
    lease = open_one(world)
    enqueue(world)
    within = ClaimTask(session_id="s", owner="ann", queues=("tasks",), lease_id=lease)
    world.do(within)
    assert not is_worth_waiting(within, world.do(within))
    elsewhere = ClaimTask(session_id="s", owner="bob", queues=("tasks",))
    assert is_worth_waiting(elsewhere, world.do(elsewhere))


def test_a_lost_reply_is_replayed(world: World) -> None:
    enqueue(world)
    first = claim(world, request_id="r")
    again = claim(world, request_id="r")
    assert (again.replayed, again.lease_id, again.fencing_token) == (True, first.lease_id, first.fencing_token)
    assert again.session is not None
    assert again.session.replayed
    assert world.event_types().count("claimed") == 1


def test_the_first_queue_that_has_a_task_is_served_first(world: World) -> None:
    enqueue(world, "for-anybody", priority=1)
    enqueue(world, "own", queue="session.s")
    assert claim(world, queues=("session.s", "tasks")).job_id == "own"
    assert claim(world, session_id="t", queues=("session.t", "tasks")).job_id == "for-anybody"


def test_a_full_queue_is_skipped(world: World) -> None:
    world.do(SetQueue(queue="tasks", max_claimed=1))
    enqueue(world, "one")
    enqueue(world, "two")
    claim(world)
    assert claim(world, session_id="t").status == "empty"
    enqueue(world, "other", queue="more")
    assert claim(world, session_id="t", queues=("tasks", "more")).job_id == "other"


def test_a_lost_task_waits_for_room_in_a_full_queue_too(world: World) -> None:
    enqueue(world, "lost")
    claim(world)
    world.advance(100)
    world.do(SetQueue(queue="tasks", max_claimed=1))
    enqueue(world, "urgent", priority=1)
    claim(world, "bob", session_id="t")
    assert claim(world).status == "empty"


def test_retry_after_is_that_of_the_earliest_queue(world: World) -> None:
    enqueue(world, "later", run_at=world.clock.now_ms + 5_000)
    enqueue(world, "much-later", queue="more", run_at=world.clock.now_ms + 50_000)
    for queues in (("tasks", "more"), ("more", "tasks"), ("none", "tasks")):
        assert claim(world, queues=queues).retry_after_ms == 5_000


def test_a_held_reply_says_how_long_the_session_lives(world: World) -> None:
    enqueue(world)
    claim(world)
    world.advance(10)
    assert claim(world, "bob").retry_after_ms == 20_000


def test_a_task_that_is_handed_over_does_not_count_as_another_claim(world: World) -> None:
    enqueue(world)
    claimed = claim(world, max_claims=1)
    world.do(HandOverSession(session_id="s", lease_id=claimed.lease_id, to_agent="bob"))
    assert claim(world, "bob", max_claims=1).job_id == "task"


def test_releasing_the_task_releases_everything_bound_to_its_session(world: World) -> None:
    enqueue(world)
    claimed = claim(world)
    bound = world.do(ClaimJob(job_id="lock", owner="ann", session_id="s"))
    release(world, claimed)
    view = world.ask(GetJob(job_id="lock"))
    assert (view.status, view.previous[0].reason) == ("free", "its session was closed")
    with pytest.raises(LeaseLost, match="its session was closed"):
        world.do(CheckpointJob(job_id="lock", lease_id=bound.lease_id or "", data=b"1"))


def test_one_heartbeat_keeps_the_session_and_its_task(world: World) -> None:
    enqueue(world)
    claimed = claim(world)
    for _ in range(3):
        world.advance(20)
        world.do(KeepSessionAlive(session_id="s", lease_id=claimed.lease_id))
    assert world.ask(GetJob(job_id="task")).owner == "ann"
    world.do(CheckpointJob(job_id="task", lease_id=claimed.lease_id or "", data=b'{"step":3}'))
    world.advance(30)
    assert world.ask(GetJob(job_id="task")).owner is None
    with pytest.raises(LeaseLost):
        world.do(KeepSessionAlive(session_id="s", lease_id=claimed.lease_id))
    with pytest.raises(LeaseLost):
        release(world, claimed)


def test_resuming_a_lost_session_returns_what_was_in_flight(world: World) -> None:
    enqueue(world, payload=b'{"issue":1842}')
    lost = claim(world)
    world.do(SaveSession(session_id="s", lease_id=lost.lease_id, context=b'{"turn":4}', phase="executing"))
    world.do(CheckpointJob(job_id="task", lease_id=lost.lease_id or "", data=b'{"step":3}'))
    world.advance(31)
    (evidence,) = world.do(Recover()).recovered
    assert (evidence.session_id, evidence.owner, evidence.ttl, evidence.late_ms) == ("s", "ann", 30, 1_000)
    assert world.ask(GetSession(session_id="s")).in_flight == ["task"]
    resumed = world.do(OpenSession(session_id="s", agent="bob"))
    assert (resumed.resumed, resumed.context, resumed.phase) == (True, {"turn": 4}, "executing")
    (task,) = resumed.in_flight
    assert (task.job_id, task.status, task.is_ours, task.attempts) == ("task", "queued", False, 1)
    assert (task.payload, task.checkpoint) == ({"issue": 1842}, {"step": 3})
    world.do(CloseSession(session_id="s", lease_id=resumed.lease_id))
    assert world.ask(GetSession(session_id="s")).in_flight == [], "it was closed"


def test_claiming_the_lost_task_resumes_the_session(world: World) -> None:
    enqueue(world)
    claim(world)
    world.advance(60)
    again = claim(world, "bob")
    assert again.session is not None
    assert (again.attempt, again.previous[0].how, again.session.phase) == (2, "expired", "planning")
    assert again.session.in_flight == [], "it is claimed again"


def test_a_resumed_session_goes_on_with_the_task_it_lost(world: World) -> None:
    """Although the backoff put that task behind the others in line."""
    for job_id in ("one", "two"):
        enqueue(world, job_id)
    assert claim(world).job_id == "one"
    world.advance(100)
    assert claim(world, "bob", kinds=("other",)).status == "empty"
    assert claim(world, "bob", prefix="two").job_id == "two"
    world.advance(100)
    assert claim(world, "eve").job_id == "one", "the first task it lost"


def test_during_the_backoff_of_a_lost_task_a_session_gets_other_work(world: World) -> None:
    for job_id in ("one", "two"):
        enqueue(world, job_id)
    claim(world)
    world.advance(30)
    assert claim(world, "bob").job_id == "two"


def test_a_lost_task_is_not_returned_for_another_queue(world: World) -> None:
    enqueue(world, "lost")
    claim(world)
    world.advance(100)
    assert claim(world, "bob", queues=("more",)).status == "empty"
    enqueue(world, "other", queue="more")
    assert claim(world, "bob", queues=("more",)).job_id == "other"


def test_a_handed_over_task_is_not_returned_for_another_queue(world: World) -> None:
    enqueue(world)
    world.do(HandOverSession(session_id="s", lease_id=claim(world).lease_id, to_agent="bob"))
    enqueue(world, "other", queue="more")
    assert claim(world, "bob", queues=("more",)).status == "empty", "it has one task at a time"
    assert claim(world, "bob", queues=("more", "tasks")).job_id == "task"


def test_in_flight_shows_a_task_that_another_session_finished(world: World) -> None:
    enqueue(world)
    claim(world)
    world.advance(60)
    other = claim(world, "bob", session_id="t")
    world.do(ReleaseTask(session_id="t", job_id="task", lease_id=other.lease_id or "", outcome="done"))
    (task,) = world.do(OpenSession(session_id="s", agent="ann")).in_flight
    assert (task.status, task.checkpoint) == ("done", None)


@pytest.mark.parametrize(
    ("outcome", "attempts", "status", "phase"),
    [
        ("done", 5, "done", "idle"),
        ("released", 5, "queued", "idle"),
        ("failed", 5, "queued", "idle"),
        ("failed", 1, "dead", "error"),
        ("deferred", 1, "queued", "blocked"),
    ],
)
def test_what_becomes_of_task_and_session(
    world: World, outcome: Outcome, attempts: int, status: str, phase: str
) -> None:
    enqueue(world, max_attempts=attempts)
    assert release(world, claim(world), outcome).status == status
    assert world.ask(GetSession(session_id="s")).phase == phase


def test_every_change_of_phase_is_logged_with_its_agent(world: World) -> None:
    enqueue(world)
    claimed = claim(world)
    world.do(SaveSession(session_id="s", lease_id=claimed.lease_id, context=b"1", phase="executing"))
    release(world, claimed, "deferred", retry_after=0)
    claim(world, "bob")
    logged = [
        (event.type, event.agent, event.data.get("phase_before"), event.data["phase"])
        for event in world.events()
        if "phase" in event.data
    ]
    assert logged == [
        ("session_opened", "ann", None, "planning"),
        ("session_saved", "ann", "planning", "executing"),
        ("session_closed", "ann", "executing", "blocked"),
        ("session_opened", "bob", "blocked", "planning"),
    ]


def test_a_phase_that_the_agent_chose_stays(world: World) -> None:
    enqueue(world, max_attempts=1)
    claimed = claim(world)
    world.do(SaveSession(session_id="s", lease_id=claimed.lease_id, context=b"1", phase="done"))
    release(world, claimed, "failed")
    assert world.ask(GetSession(session_id="s")).phase == "done"


def test_a_release_can_be_repeated(world: World) -> None:
    enqueue(world)
    claimed = claim(world)
    reply = release(world, claimed)
    events = len(world.log())
    assert release(world, claimed) == reply
    assert len(world.log()) == events
    enqueue(world, "next")
    claim(world, "bob")
    assert release(world, claimed) == reply
    assert world.ask(GetSession(session_id="s")).status == "open", "it belongs to another agent now"


def test_only_its_own_session_can_release_a_task(world: World) -> None:
    enqueue(world)
    claimed = claim(world)
    with pytest.raises(InvalidInput, match="session_id is 't'"):
        release(world, claimed, session_id="t")
    assert world.ask(GetJob(job_id="task")).owner == "ann"


def test_closing_the_session_releases_its_task(world: World) -> None:
    enqueue(world)
    claimed = claim(world)
    world.do(CloseSession(session_id="s", lease_id=claimed.lease_id))
    view = world.ask(GetJob(job_id="task"))
    assert (view.status, view.attempts) == ("queued", 0)


def test_the_session_of_another_principal_is_left_alone(world: World) -> None:
    enqueue(world)
    world.do(OpenSession(session_id="s", agent="ann", principal="guest"))
    reply = claim(world)
    assert (reply.status, reply.session and reply.session.resumed) == ("claimed", False)
    sessions = world.ask(ListSessions()).sessions
    assert [(view.principal, view.session_id, view.jobs) for view in sessions] == [
        ("guest", "s", []),
        ("local", "s", ["task"]),
    ]


def test_a_limit_on_claims_leaves_the_session_alone(world: World) -> None:
    enqueue(world)
    world.do(ClaimJob(job_id="held", owner="ann"))
    before = len(world.log())
    with pytest.raises(LimitExceeded):
        claim(world, max_claims=1)
    assert len(world.log()) == before


def test_a_task_needs_a_queue() -> None:
    with pytest.raises(InvalidInput, match="queues"):
        ClaimTask(session_id="s", owner="ann", queues=())
