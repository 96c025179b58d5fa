"""Handing over a live session: its context and claims go with it, and the old lease is lost at once."""

from typing import Any

import pytest

from octostore.core.commands import (
    AcquireLock,
    CheckpointJob,
    ClaimJob,
    ClaimTask,
    CloseSession,
    Enqueue,
    HandOverSession,
    HeartbeatJob,
    KeepSessionAlive,
    OpenSession,
    ReleaseJob,
    ReleaseTask,
    SaveSession,
)
from octostore.core.errors import Held, InvalidInput, LeaseLost, NotFound
from octostore.core.questions import GetJob, GetSession
from octostore.core.replies import ClaimReply, HandedOverReply, SessionReply
from tests.support.world import World


def working(world: World) -> ClaimReply:
    """Ann has a session with a task."""
    world.do(Enqueue(job_id="task", kind="build", queue="tasks", payload=b'{"issue":1842}'))
    claimed = world.do(ClaimTask(session_id="s", owner="ann", queues=("tasks",), ttl=30))
    world.do(HeartbeatJob(job_id="task", lease_id=claimed.lease_id or "", note="running tests"))
    world.do(CheckpointJob(job_id="task", lease_id=claimed.lease_id or "", data=b'{"step":3}'))
    world.do(SaveSession(session_id="s", lease_id=claimed.lease_id, context=b'{"turn":4}', phase="executing"))
    return claimed


def hand_over(world: World, lease_id: str | None, **terms: Any) -> HandedOverReply:
    return world.do(
        HandOverSession(**{"session_id": "s", "lease_id": lease_id, "to_agent": "bob", "note": "yours", **terms})
    )


def take(world: World, agent: str = "bob", **terms: Any) -> SessionReply:
    return world.do(OpenSession(**{"session_id": "s", "agent": agent, "ttl": 60, **terms}))


def test_context_and_claims_go_with_the_session(world: World) -> None:
    before = working(world)
    handed_over = hand_over(world, before.lease_id)
    assert (handed_over.agent, handed_over.jobs) == ("bob", ["task"])
    taken = take(world)
    assert (taken.resumed, taken.context, taken.phase, taken.note) == (True, {"turn": 4}, "executing", "yours")
    (task,) = taken.in_flight
    assert (task.job_id, task.is_ours, task.payload, task.checkpoint) == ("task", True, {"issue": 1842}, {"step": 3})
    assert task.note == "running tests"
    assert (task.fencing_token or 0) > (before.fencing_token or 0)
    world.do(ReleaseTask(session_id="s", job_id="task", lease_id=taken.lease_id, outcome="done"))
    assert world.ask(GetJob(job_id="task")).status == "done"


def test_the_old_lease_is_lost_at_once(world: World) -> None:
    before = working(world)
    hand_over(world, before.lease_id)
    lease = before.lease_id or ""
    for command in (
        KeepSessionAlive(session_id="s", lease_id=lease),
        SaveSession(session_id="s", lease_id=lease, context=b"1"),
        HeartbeatJob(job_id="task", lease_id=lease),
        CheckpointJob(job_id="task", lease_id=lease, data=b"1"),
        ReleaseJob(job_id="task", lease_id=lease),
        ReleaseTask(session_id="s", job_id="task", lease_id=lease, outcome="done"),
        HandOverSession(session_id="s", lease_id=lease, to_agent="eve"),
    ):
        with pytest.raises(LeaseLost, match="bob"):
            world.do(command)


def test_there_is_always_an_owner(world: World) -> None:
    before = working(world)
    hand_over(world, before.lease_id)
    view = world.ask(GetJob(job_id="task"))
    assert (view.owner, view.attempts, view.claim and view.claim.attempt) == ("bob", 0, 1)
    assert world.ask(GetSession(session_id="s")).offered
    assert world.do(ClaimJob(job_id="task", owner="eve")).status == "held"
    tail = world.events()[-3:]
    assert [event.type for event in tail] == ["session_handed_over", "released", "claimed"]
    assert (tail[0].agent, tail[0].data["to_agent"]) == ("ann", "bob")
    assert (tail[1].agent, tail[1].reason) == ("ann", "handed over to 'bob'")
    assert tail[1].data["handed_over_to"] == "bob", "it is not back in its queue, whatever the status in the event"
    assert (tail[2].agent, tail[2].data["handed_over_by"]) == ("bob", "ann")


def test_only_the_named_agent_can_take_the_session(world: World) -> None:
    before = working(world)
    hand_over(world, before.lease_id)
    for agent in ("ann", "eve"):
        with pytest.raises(Held):
            take(world, agent)
    take(world)
    with pytest.raises(Held):
        take(world)


def test_claiming_its_task_takes_the_session(world: World) -> None:
    before = working(world)
    hand_over(world, before.lease_id)
    claimed = world.do(ClaimTask(session_id="s", owner="bob", queues=("tasks",)))
    assert (claimed.status, claimed.job_id, claimed.checkpoint) == ("claimed", "task", {"step": 3})
    assert (claimed.attempt, claimed.previous[0].owner, claimed.previous[0].note) == (1, "ann", "yours")
    world.do(ReleaseTask(session_id="s", job_id="task", lease_id=claimed.lease_id or "", outcome="done"))


def test_a_hand_over_can_be_repeated(world: World) -> None:
    before = working(world)
    first = hand_over(world, before.lease_id)
    events = len(world.log())
    assert hand_over(world, before.lease_id) == first
    take(world)
    assert hand_over(world, before.lease_id).jobs == ["task"], "even after it was taken"
    assert len(world.log()) == events + 1


def test_the_old_owner_does_not_get_the_session_back_by_repeating_how_it_opened_it(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build"))
    claim = ClaimTask(session_id="s", owner="ann", queues=("default",), request_id="r")
    hand_over(world, world.do(claim).lease_id)
    for repeated in (claim, OpenSession(session_id="s", agent="ann", request_id="r")):
        with pytest.raises(LeaseLost):
            world.do(repeated)
    assert take(world).agent == "bob"


def test_another_principal_learns_nothing_by_repeating_the_hand_over(world: World) -> None:
    working(world)
    hand_over(world, None)
    with pytest.raises(NotFound):
        hand_over(world, None, principal="guest")


def test_without_a_lease_the_same_call_is_a_repeat_only_until_the_session_is_taken(world: World) -> None:
    working(world)
    hand_over(world, None)
    taken = take(world)
    hand_over(world, None)
    assert world.event_types().count("session_handed_over") == 2
    with pytest.raises(LeaseLost):
        world.do(KeepSessionAlive(session_id="s", lease_id=taken.lease_id))


@pytest.mark.parametrize("ending", ["closed", "expired", "never taken"])
def test_the_old_owner_is_forgotten_when_the_session_is_opened_again(world: World, ending: str) -> None:
    before = working(world)
    hand_over(world, before.lease_id)
    if ending != "never taken":
        taken = take(world)
    if ending == "closed":
        world.do(CloseSession(session_id="s", lease_id=taken.lease_id))
    world.advance(60)
    resumed = take(world)
    with pytest.raises(LeaseLost, match="bob"):
        hand_over(world, before.lease_id)
    world.do(KeepSessionAlive(session_id="s", lease_id=resumed.lease_id))


def test_only_the_last_hand_over_can_be_repeated(world: World) -> None:
    first = working(world).lease_id
    hand_over(world, first)
    hand_over(world, take(world).lease_id, to_agent="ann")
    last = take(world, "ann").lease_id
    reply = hand_over(world, last)
    assert hand_over(world, last) == reply
    with pytest.raises(LeaseLost, match="bob"):
        hand_over(world, first)


def test_claims_keep_their_principal_when_an_operator_hands_the_session_over(world: World) -> None:
    session = take(world, "ann", principal="team")
    world.do(ClaimJob(job_id="job", owner="ann", session_id="s", principal="team"))
    hand_over(world, session.lease_id, session_id="team/s", principal="operator")
    assert [(entry.type, entry.actor) for entry in world.log()[-3:]] == [
        ("session_handed_over", "operator"),
        ("released", "operator"),
        ("claimed", "team"),
    ]
    owner = world.ask(GetJob(job_id="job")).claim
    assert owner is not None
    assert (owner.principal, world.ask(GetSession(session_id="team/s")).principal) == ("team", "team")


def test_a_lock_stays_a_lock_and_keeps_its_lock_delay(world: World) -> None:
    session = take(world, "ann")
    lock = AcquireLock(job_id="lock", owner="ann", session_id="s", ephemeral=True, lock_delay=10)
    world.do(lock)
    hand_over(world, session.lease_id)
    taken = take(world)
    again = world.do(lock)
    assert (again.status, again.lease_id, again.replayed) == ("claimed", taken.lease_id, True)
    world.do(CloseSession(session_id="s", lease_id=taken.lease_id))
    reply = world.do(ClaimJob(job_id="lock", owner="eve"))
    assert (reply.status, reply.retry_after_ms) == ("delayed", 10_000)


def test_the_ttl_restarts_at_the_hand_over_and_the_new_owner_sets_its_own(world: World) -> None:
    before = working(world)
    world.advance(20)
    hand_over(world, before.lease_id)
    view = world.ask(GetSession(session_id="s"))
    assert (view.expires_at - view.heartbeat_at).total_seconds() == 30
    claimed = world.do(ClaimTask(session_id="s", owner="bob", queues=("tasks",), ttl=60))
    assert (claimed.ttl, claimed.remaining_ms) == (60, 60_000)


def test_the_note_of_a_hand_over_ends_with_the_session(world: World) -> None:
    hand_over(world, working(world).lease_id)
    taken = take(world)
    assert taken.note == "yours"
    world.do(CloseSession(session_id="s", lease_id=taken.lease_id))
    view = world.ask(GetSession(session_id="s"))
    assert (view.note, view.offered, take(world).note) == (None, False, None)


def test_an_offer_ends_when_the_session_expires(world: World) -> None:
    hand_over(world, working(world).lease_id)
    world.advance(30)
    view = world.ask(GetSession(session_id="s"))
    assert (view.status, view.offered) == ("expired", False)


def test_anyone_can_resume_a_session_that_nobody_took(world: World) -> None:
    before = working(world)
    hand_over(world, before.lease_id)
    world.advance(30)
    resumed = take(world, "eve")
    assert (resumed.context, resumed.phase, resumed.note) == ({"turn": 4}, "executing", "yours")
    assert [(task.job_id, task.status) for task in resumed.in_flight] == [("task", "queued")]


def test_the_hand_over_counts_as_a_heartbeat(world: World) -> None:
    before = working(world)
    world.advance(29)
    hand_over(world, before.lease_id)
    world.advance(29)
    assert take(world).in_flight[0].is_ours


def test_a_session_can_be_handed_over_and_back(world: World) -> None:
    lease = working(world).lease_id
    for number in range(6):
        to_agent = "bob" if number % 2 == 0 else "ann"
        hand_over(world, lease, to_agent=to_agent)
        lease = take(world, to_agent).lease_id
    tokens = [entry.seq for entry in world.log() if entry.type == "claimed"]
    assert len(tokens) == 7
    assert tokens == sorted(tokens)


def test_locks_and_other_claims_go_along(world: World) -> None:
    session = world.do(OpenSession(session_id="s", agent="ann"))
    for job_id in ("a", "b"):
        world.do(ClaimJob(job_id=job_id, owner="ann", session_id="s", metadata=b'{"branch":"x"}'))
    hand_over(world, session.lease_id)
    taken = take(world)
    assert [task.job_id for task in taken.in_flight] == ["a", "b"]
    owner = world.ask(GetJob(job_id="a")).claim
    assert owner is not None
    assert (owner.owner, owner.metadata) == ("bob", {"branch": "x"})
    world.do(HeartbeatJob(job_id="b", lease_id=taken.lease_id))


def test_without_a_lease_only_the_same_principal_can_hand_over(world: World) -> None:
    working(world)
    with pytest.raises(NotFound):
        hand_over(world, None, principal="guest")
    assert hand_over(world, None).agent == "bob"
    assert hand_over(world, None).agent == "bob"
    assert world.event_types().count("session_handed_over") == 1


def test_a_session_that_has_ended_cannot_be_handed_over(world: World) -> None:
    before = working(world)
    world.advance(30)
    with pytest.raises(LeaseLost, match="expired"):
        hand_over(world, before.lease_id)
    with pytest.raises(NotFound):
        hand_over(world, None, session_id="never")


def test_a_hand_over_names_an_agent() -> None:
    with pytest.raises(InvalidInput, match="to_agent"):
        HandOverSession(session_id="s", lease_id=None, to_agent="")
