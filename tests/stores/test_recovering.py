"""`recover` records every expiry, a thousand at a time; and a probe is a write."""

import pytest

import octostore
from octostore.client.embedded import EmbeddedPort
from octostore.core.commands import AnyCommand, ClaimJob, CloseSession, OpenSession, Probe, Recover
from octostore.core.limits import RECOVER_LIMIT
from octostore.core.questions import GetFigures, ListJobs
from octostore.core.replies import RecoverReply
from octostore.stores.base import Counters
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.store import LocalStore
from tests.support.world import World

MORE = RECOVER_LIMIT // 2


def claims(number: int, session_id: str | None = None, prefix: str = "job") -> list[AnyCommand]:
    return [ClaimJob(job_id=f"{prefix}-{n}", owner="dead", ttl=10, session_id=session_id) for n in range(number)]


def recover_all(world: World) -> list[tuple[int, bool]]:
    """The number of claims each step recovered, and whether it reported completion."""
    steps: list[RecoverReply] = []
    while not steps or not steps[-1].is_complete:
        steps.append(world.do(Recover()))
        assert len(steps) < 10, "it never completes"
    assert world.ask(GetFigures()).taken_back == sum(len(step.recovered) for step in steps)
    return [(len(step.recovered), step.is_complete) for step in steps]


def test_more_than_the_limit_takes_several_steps(world: World) -> None:
    world.batch(claims(RECOVER_LIMIT + MORE))
    world.advance(10)
    assert recover_all(world) == [(RECOVER_LIMIT, False), (MORE, True)]
    assert world.ask(ListJobs(status="claimed")).jobs == []
    assert world.event_types().count("expired") == RECOVER_LIMIT + MORE


def test_exactly_the_limit(world: World) -> None:
    world.batch(claims(RECOVER_LIMIT))
    world.advance(10)
    assert recover_all(world) in ([(RECOVER_LIMIT, True)], [(RECOVER_LIMIT, False), (0, True)])


def test_the_claims_of_sessions_count_too(world: World) -> None:
    """The session's claims and the others together exceed one step."""
    for session_id in ("s", "t"):
        world.do(OpenSession(session_id=session_id, agent="dead", ttl=10))
    world.batch(claims(MORE))
    world.batch(claims(MORE + 1, "s", "of-s"))
    world.advance(10)
    steps = recover_all(world)
    assert sum(number for number, _ in steps) == 2 * MORE + 1
    assert [complete for _, complete in steps] == [False, True]
    assert world.event_types().count("session_expired") == 2


def test_sessions_without_claims_are_recovered_too(world: World) -> None:
    world.batch([OpenSession(session_id=f"s-{n}", agent="dead", ttl=10) for n in range(RECOVER_LIMIT + 1)])
    world.do(CloseSession(session_id="s-0", lease_id=None))
    world.batch([OpenSession(session_id=f"t-{n}", agent="dead", ttl=10) for n in range(2)])
    world.advance(10)
    assert [complete for _, complete in recover_all(world)] == [False, True]
    assert world.event_types().count("session_expired") == RECOVER_LIMIT + 2


@pytest.mark.parametrize("world", ["memory", "sqlite"], indirect=True)
def test_the_library_asks_until_it_is_complete(world: World) -> None:
    world.batch(claims(RECOVER_LIMIT + MORE))
    world.advance(10)
    store = octostore.OctoStore(EmbeddedPort(LocalStore(lambda: world.backend, clock=world.clock)))
    assert len(store.recover()) == RECOVER_LIMIT + MORE
    assert store.recover() == []


# Probes


def stored(world: World) -> Counters:
    """The stored counters, without the current time."""
    if isinstance(world.backend, PostgresBackend):
        world.backend._now = lambda: 0
    with world.backend.reading() as reading:
        counters = reading.counters()
    if isinstance(world.backend, PostgresBackend):
        world.backend._now = lambda: world.clock.now_ms
    return counters


def test_a_probe_is_written(world: World) -> None:
    world.do(ClaimJob(job_id="job", owner="ann"))
    for _ in range(3):
        world.advance(1)
        reply = world.do(Probe())
        assert (reply.seq, stored(world).seq) == (1, 1), "a probe is not an event"
        assert stored(world).mark.now == world.clock.now_ms


def test_a_command_that_changes_nothing_writes_nothing(world: World) -> None:
    world.do(ClaimJob(job_id="job", owner="ann"))
    before = stored(world)
    world.advance(1)
    assert world.do(ClaimJob(job_id="job", owner="bob")).status == "held"
    assert stored(world) == before
