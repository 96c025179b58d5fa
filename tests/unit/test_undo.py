"""A claim whose reply reached nobody is undone, as if it had never been made; any other claim is not."""

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


def without_undone(world: World) -> JobView:
    """Return the job without the undone claims in its history."""
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
    before = without_undone(world)
    gone = claim(world, again=True, lock_delay=lock_delay)
    assert gone.status == "claimed"
    world.advance(seconds)
    assert undo(world, gone)
    after = without_undone(world)
    if before.created_at is None:
        after = msgspec.structs.replace(after, created_at=None, available_at=None, is_known=False)
    assert after == before
    following = claim(world, again=True)
    assert (following.status, following.attempt) == ("claimed", gone.attempt)
    assert following.checkpoint == gone.checkpoint


def test_an_undo_is_logged_and_its_lease_is_lost(world: World) -> None:
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
def test_the_first_of_a_replay_and_an_undo_wins(world: World, order: str) -> None:
    first = claim(world, request_id="r")
    again = c.ClaimJob(job_id="job", owner="ann", request_id="r")
    undoing = c.Undo(job_id="job", lease_id=first.lease_id or "")
    commands: list[AnyCommand] = [again, undoing] if "replay first" in order else [undoing, again]
    replies = world.batch(commands) if "one batch" in order else [world.batch([one])[0] for one in commands]
    claimed = next(reply for reply in replies if isinstance(reply, ClaimReply))
    assert claimed.status == "claimed"
    assert claimed.replayed == ("replay first" in order)
    world.do(c.HeartbeatJob(job_id="job", lease_id=claimed.lease_id or ""))
    assert world.event_types() == (["claimed"] if claimed.replayed else ["claimed", "undone", "claimed"])


def test_a_replay_is_never_undone_by_its_caller(world: World) -> None:
    claim(world, request_id="r")
    assert undo_of(claim(world, request_id="r")) is None


def test_a_takeover_names_the_last_owner_even_after_an_undo(world: World) -> None:
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


def test_in_flight_jobs_are_still_known_after_an_undo(world: World) -> None:
    """Unlike after a close, which ends them."""
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


def test_an_undo_names_either_a_job_or_a_session() -> None:
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


def test_undoing_the_claim_of_a_resumed_session_puts_its_task_back_in_flight(world: World) -> None:
    world.do(c.Enqueue(job_id="job", kind="build"))
    world.do(c.ClaimTask(session_id="s", owner="ann", queues=("default",), ttl=1))
    world.advance(100)
    taken = world.do(c.ClaimTask(session_id="s", owner="bob", queues=("default",)))
    assert taken.job_id == "job"
    assert undo(world, taken)
    assert world.ask(GetSession(session_id="s")).in_flight == ["job"]
