"""What was answered to nobody is taken back, as if it had never been; what somebody was told of is not."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core import commands as c
from octostore.core.commands import AnyCommand
from octostore.core.errors import InvalidInput, LeaseLost
from octostore.core.model import Outcome
from octostore.core.questions import GetJob, GetSession
from octostore.core.replies import ClaimReply, JobView
from octostore.core.undo import undo_of
from tests.support.world import World

OUTCOMES: tuple[Outcome, ...] = ("released", "done", "failed", "deferred")


def undo(world: World, reply: object) -> bool:
    command = undo_of(reply)
    assert command is not None
    return world.do(command).undone


def claim(world: World, **terms: object) -> ClaimReply:
    return world.do(c.ClaimJob(job_id="job", owner="ann", **terms))  # type: ignore[arg-type]


def as_told(world: World) -> JobView:
    """Without the history, which keeps what was undone."""
    job = world.ask(GetJob(job_id="job"))
    return msgspec.structs.replace(job, previous=[one for one in job.previous if one.how != "undone"])


@given(
    is_enqueued=st.booleans(),
    endings=st.lists(st.sampled_from(OUTCOMES), max_size=3),
    lock_delay=st.sampled_from([0, 7]),
    seconds=st.sampled_from([0, 5, 100]),
)
def test_an_undone_claim_leaves_the_job_as_it_was(
    is_enqueued: bool, endings: list[Outcome], lock_delay: float, seconds: float
) -> None:
    world = World()
    if is_enqueued:
        world.do(c.Enqueue(job_id="job", kind="build", payload=b"1", max_attempts=9))
    for ending in endings:
        reply = claim(world, again=True)
        world.do(c.CheckpointJob(job_id="job", lease_id=reply.lease_id or "", data=b'{"step":1}'))
        world.do(c.ReleaseJob(job_id="job", lease_id=reply.lease_id or "", outcome=ending, note="noted"))
        world.advance(1_000)
    before = as_told(world)
    gone = claim(world, again=True, lock_delay=lock_delay)
    assert gone.status == "claimed"
    world.advance(seconds)
    assert undo(world, gone)
    after = as_told(world)
    if before.created_at is None:
        after = msgspec.structs.replace(after, created_at=None, available_at=None, is_known=False)
    assert after == before
    following = claim(world, again=True)
    assert (following.status, following.attempt) == ("claimed", gone.attempt)
    assert following.checkpoint == gone.checkpoint


def test_it_is_an_event_of_its_own_and_the_lease_is_told(world: World) -> None:
    reply = claim(world)
    world.advance(1)
    assert undo(world, reply)
    assert world.event_types() == ["claimed", "undone"]
    with pytest.raises(LeaseLost, match="the caller had already gone") as lost:
        world.do(c.HeartbeatJob(job_id="job", lease_id=reply.lease_id or ""))
    assert lost.value.ended is not None
    assert lost.value.ended.how == "undone"
    with pytest.raises(LeaseLost):
        world.do(c.ReleaseJob(job_id="job", lease_id=reply.lease_id or ""))


def test_the_same_request_may_claim_again_after_an_undo(world: World) -> None:
    first = claim(world, request_id="r")
    assert undo(world, first)
    second = claim(world, request_id="r")
    assert (second.status, second.replayed) == ("claimed", False)
    assert second.fencing_token != first.fencing_token


@pytest.mark.parametrize("order", ["replay first", "undo first", "one batch, replay first", "one batch, undo first"])
def test_whichever_comes_first_decides(world: World, order: str) -> None:
    first = claim(world, request_id="r")
    again = c.ClaimJob(job_id="job", owner="ann", request_id="r")
    taking_back = c.Undo(job_id="job", lease_id=first.lease_id or "")
    commands: list[AnyCommand] = [again, taking_back] if "replay first" in order else [taking_back, again]
    answers = world.batch(commands) if "one batch" in order else [world.batch([one])[0] for one in commands]
    told = next(answer for answer in answers if isinstance(answer, ClaimReply))
    assert told.status == "claimed"
    assert told.replayed == ("replay first" in order)
    world.do(c.HeartbeatJob(job_id="job", lease_id=told.lease_id or ""))
    assert world.event_types() == (["claimed"] if told.replayed else ["claimed", "undone", "claimed"])


def test_a_replay_is_never_undone_by_whoever_got_it(world: World) -> None:
    claim(world, request_id="r")
    assert undo_of(claim(world, request_id="r")) is None


def test_who_took_over_is_told_from_whom_also_after_an_undo(world: World) -> None:
    claim(world, ttl=1)
    world.advance(2)
    undo(world, world.do(c.ClaimJob(job_id="job", owner="gone")))
    world.do(c.ClaimJob(job_id="job", owner="bob"))
    taken = [event.data.get("took_over_from") for event in world.events() if event.type == "claimed"]
    assert taken == [None, "ann", "ann"]


def test_a_session_is_undone_with_its_task(world: World) -> None:
    world.do(c.Enqueue(job_id="job", kind="build"))
    reply = world.do(c.ClaimTask(session_id="s", owner="ann", queues=("default",)))
    assert undo(world, reply)
    assert world.event_types() == ["enqueued", "session_opened", "claimed", "undone", "session_undone"]
    assert world.ask(GetSession(session_id="s")).status == "closed"
    again = world.do(c.ClaimTask(session_id="s", owner="bob", queues=("default",)))
    assert (again.status, again.job_id, again.attempt) == ("claimed", "job", 1)


def test_what_a_session_had_in_flight_is_still_known_after_an_undo(world: World) -> None:
    """As opposed to one that was closed in order, and is done with it."""
    world.do(c.Enqueue(job_id="job", kind="build"))
    world.do(c.ClaimTask(session_id="s", owner="ann", queues=("default",), ttl=1))
    world.advance(2)
    opened = world.do(c.OpenSession(session_id="s", agent="bob"))
    assert undo(world, opened)
    assert world.ask(GetSession(session_id="s")).in_flight == ["job"]


@pytest.mark.parametrize("how", ["replayed", "with a claim that somebody bound to it"])
def test_a_session_that_somebody_relies_on_is_not_undone(world: World, how: str) -> None:
    opening = c.OpenSession(session_id="s", agent="ann", request_id="r")
    opened = world.do(opening)
    if how == "replayed":
        world.do(opening)
    else:
        world.do(c.ClaimJob(job_id="job", owner="ann", session_id="s"))
    assert not undo(world, opened)
    assert world.ask(GetSession(session_id="s")).status == "open"


def test_an_undo_names_what_it_is_about() -> None:
    for job_id, session_id in ((None, None), ("job", "s")):
        with pytest.raises(InvalidInput, match="job_id or session_id"):
            c.Undo(lease_id="lease", job_id=job_id, session_id=session_id)


def test_an_enqueue_under_a_claim_that_is_undone_is_not_lost(world: World) -> None:
    done = claim(world)
    world.do(c.ReleaseJob(job_id="job", lease_id=done.lease_id or "", outcome="done"))
    gone = claim(world, again=True)
    assert world.do(c.Enqueue(job_id="job", kind="build")).created
    assert undo(world, gone)
    assert world.do(c.ClaimNext(owner="bob")).job_id == "job"


@pytest.mark.parametrize("use", ["heartbeat", "numbered heartbeat", "progress", "numbered checkpoint"])
def test_a_claim_that_is_in_use_is_not_undone(world: World, use: str) -> None:
    reply = claim(world)
    lease_id = reply.lease_id or ""
    if use == "heartbeat":
        world.advance(1)
    write: AnyCommand = c.HeartbeatJob(job_id="job", lease_id=lease_id, number=1 if "numbered" in use else None)
    if use == "progress":
        write = c.HeartbeatJob(job_id="job", lease_id=lease_id, note="reading")
    if use == "numbered checkpoint":
        write = c.CheckpointJob(job_id="job", lease_id=lease_id, data=b"1", number=1)
    world.batch([write])
    assert not undo(world, reply)
    assert world.event_types() == ["claimed"]


def test_a_resumed_session_has_in_flight_again_what_it_got_back(world: World) -> None:
    world.do(c.Enqueue(job_id="job", kind="build"))
    world.do(c.ClaimTask(session_id="s", owner="ann", queues=("default",), ttl=1))
    world.advance(100)
    taken = world.do(c.ClaimTask(session_id="s", owner="bob", queues=("default",)))
    assert taken.job_id == "job"
    assert undo(world, taken)
    assert world.ask(GetSession(session_id="s")).in_flight == ["job"]
