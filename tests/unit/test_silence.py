"""Liveness is not progress: an owner that heartbeats and reports nothing is stuck."""

from typing import Any

import pytest

from octostore.core.commands import (
    CheckpointJob,
    ClaimJob,
    ClaimNext,
    Enqueue,
    ForceReleaseJob,
    HeartbeatJob,
)
from octostore.core.errors import InvalidInput
from octostore.core.questions import GetFigures, GetJob
from octostore.core.replies import ClaimReply, HeartbeatReply, JobOwner
from octostore.stores.memory import MemoryBackend
from tests.support.replay import logged_job, replay
from tests.support.world import World

SILENCE = 60


def claim(world: World, **terms: Any) -> ClaimReply:
    usual: dict[str, Any] = {"owner": "ann", "ttl": 600, "max_silence": SILENCE}
    return world.do(ClaimJob(job_id="job", **(usual | terms)))


def beat(world: World, mine: ClaimReply, **report: Any) -> HeartbeatReply:
    return world.do(HeartbeatJob(job_id="job", lease_id=mine.lease_id or "", **report))


def owner(world: World) -> JobOwner:
    found = world.ask(GetJob(job_id="job")).claim
    assert found is not None
    return found


def test_an_owner_that_only_heartbeats_is_stuck(world: World) -> None:
    mine = claim(world)
    assert mine.max_silence == SILENCE
    world.advance(SILENCE - 0.001)
    assert not beat(world, mine).stuck
    assert not owner(world).stuck
    world.advance(0.001)
    assert owner(world).stuck, "anybody can see it, before it is written down"
    assert claim(world, owner="bob").stuck
    assert world.ask(GetFigures()).stuck == 1
    assert world.event_types() == ["claimed"]
    assert beat(world, mine).stuck
    *_, event = world.events()
    assert (event.type, event.actor, event.agent, event.reason) == ("stuck", "octostore", "ann", "no progress for 60 s")
    assert event.data["last_progress_at"] == owner(world).last_progress_at == mine.claimed_at


def test_it_is_told_once_for_each_stall(world: World) -> None:
    mine = claim(world)
    for report in ({"note": "half"}, {"percent": 50}, {}):
        for _ in range(3):
            world.advance(SILENCE)
            assert beat(world, mine).stuck
        assert not beat(world, mine, **report).stuck or not report
    assert world.event_types() == ["claimed", "stuck", "stuck", "stuck"]
    assert [event.data.get("note") for event in world.events()[1:]] == [None, "half", "half"]


def test_it_is_told_again_after_progress_at_the_same_moment(world: World) -> None:
    mine = claim(world)
    world.advance(SILENCE)
    lease = mine.lease_id or ""
    world.batch([HeartbeatJob(job_id="job", lease_id=lease), HeartbeatJob(job_id="job", lease_id=lease, note="go")])
    world.advance(SILENCE)
    beat(world, mine)
    assert world.event_types() == ["claimed", "stuck", "stuck"]


@pytest.mark.parametrize("number", [None, 7])
def test_a_checkpoint_is_progress(world: World, number: int | None) -> None:
    mine = claim(world)
    world.advance(SILENCE - 1)
    world.do(CheckpointJob(job_id="job", lease_id=mine.lease_id or "", data=b"1", number=number))
    world.advance(SILENCE - 1)
    assert not beat(world, mine).stuck
    world.advance(1)
    assert beat(world, mine).stuck


def test_a_report_that_comes_late_is_none(world: World) -> None:
    mine = claim(world)
    beat(world, mine, note="second", number=2)
    world.advance(SILENCE)
    assert beat(world, mine, note="first", number=1).stuck


def test_without_a_limit_nobody_is_ever_stuck(world: World) -> None:
    mine = claim(world, max_silence=None, ttl=86_400)
    world.advance(86_000)
    assert not beat(world, mine).stuck
    assert (owner(world).stuck, owner(world).max_silence, owner(world).last_progress_at) == (False, None, None)
    assert world.ask(GetFigures()).stuck == 0


def test_who_does_not_even_heartbeat_has_disappeared(world: World) -> None:
    claim(world, ttl=SILENCE)
    world.advance(SILENCE)
    assert world.ask(GetFigures()).stuck == 0
    assert world.ask(GetJob(job_id="job")).claim is None


def test_the_next_owner_begins_anew(world: World) -> None:
    world.do(Enqueue(job_id="job", kind="build"))
    first = world.do(ClaimNext(owner="ann", max_silence=SILENCE, ttl=600))
    world.advance(SILENCE)
    assert beat(world, first).stuck
    world.do(ForceReleaseJob(job_id="job"))
    second = world.do(ClaimNext(owner="bob", max_silence=SILENCE, ttl=600))
    assert not beat(world, second).stuck
    world.advance(SILENCE)
    assert beat(world, second).stuck
    assert world.event_types().count("stuck") == 2


def test_replaying_the_log_gives_what_was_told(world: World) -> None:
    mine = claim(world)
    world.advance(SILENCE)
    beat(world, mine)
    replayed = replay(world.log()).job("job")
    assert replayed.claim is not None
    assert replayed.claim.stuck_at is not None
    assert isinstance(world.backend, MemoryBackend)
    assert logged_job(replayed) == logged_job(world.backend.rows.jobs["job"])


@pytest.mark.parametrize("silence", [0, 0.5, 86_401, True, "10"])
def test_what_cannot_be_a_silence(world: World, silence: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        claim(world, max_silence=silence)
    assert caught.value.field == "max_silence"
