"""What a session was working on when it expired, until it claims the job again or is closed."""

from typing import Any

from octostore.core.commands import ClaimJob, CloseSession, Enqueue, HeartbeatJob, OpenSession, Recover
from octostore.core.limits import IN_FLIGHT_KEPT
from octostore.core.questions import GetSession
from octostore.core.replies import SessionReply
from tests.support.world import World


def open_session(world: World, session_id: str = "s", agent: str = "ann") -> SessionReply:
    return world.do(OpenSession(session_id=session_id, agent=agent, ttl=30))


def bind(world: World, *jobs: str, session_id: str = "s", owner: str = "ann") -> list[Any]:
    return world.batch([ClaimJob(job_id=job, owner=owner, session_id=session_id) for job in jobs])


def lose(world: World, *jobs: str) -> SessionReply:
    """Let the session lose these jobs, and resume it."""
    open_session(world)
    bind(world, *jobs)
    world.advance(30)
    return open_session(world)


def in_flight(world: World) -> list[str]:
    return world.ask(GetSession(session_id="s")).in_flight


def test_a_job_that_is_claimed_again_is_no_longer_in_flight(world: World) -> None:
    lose(world, "a", "b")
    assert in_flight(world) == ["a", "b"]
    bind(world, "a")
    assert in_flight(world) == ["b"]


def test_a_job_that_another_session_claims_stays_in_flight(world: World) -> None:
    lose(world, "a")
    open_session(world, "t", "bob")
    bind(world, "a", session_id="t", owner="bob")
    assert in_flight(world) == ["a"]


def test_a_closed_session_has_nothing_in_flight(world: World) -> None:
    resumed = lose(world, "a")
    world.do(CloseSession(session_id="s", lease_id=resumed.lease_id))
    assert (in_flight(world), open_session(world).in_flight) == ([], [])


def test_a_job_that_is_lost_twice_is_in_flight_once_and_last(world: World) -> None:
    lose(world, "a", "b")
    bind(world, "a")
    world.advance(30)
    assert in_flight(world) == ["b", "a"]


def test_the_last_hundred_are_remembered(world: World) -> None:
    names = [f"job-{number:03}" for number in range(IN_FLIGHT_KEPT + 20)]
    open_session(world)
    bind(world, *names)
    world.advance(30)
    world.do(Recover())
    assert in_flight(world) == names[-100:]


def test_an_in_flight_job_shows_its_new_owner(world: World) -> None:
    world.do(Enqueue(job_id="a", kind="build"))
    open_session(world)
    (first,) = bind(world, "a")
    world.do(HeartbeatJob(job_id="a", lease_id=first.lease_id, note="mine"))
    world.advance(60)
    other = world.do(ClaimJob(job_id="a", owner="bob"))
    world.do(HeartbeatJob(job_id="a", lease_id=other.lease_id or "", note="theirs"))
    (task,) = open_session(world).in_flight
    assert (task.is_ours, task.owner, task.fencing_token, task.note) == (False, "bob", None, "mine")
