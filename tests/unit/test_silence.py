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
    defaults: dict[str, Any] = {"owner": "ann", "ttl": 600, "max_silence": SILENCE}
    return world.do(ClaimJob(job_id="job", **(defaults | terms)))


def heartbeat(world: World, mine: ClaimReply, **report: Any) -> HeartbeatReply:
    return world.do(HeartbeatJob(job_id="job", lease_id=mine.lease_id or "", **report))


def owner(world: World) -> JobOwner:
    found = world.ask(GetJob(job_id="job")).claim
    assert found is not None
    return found


def test_an_owner_that_only_heartbeats_is_stuck(world: World) -> None:
    mine = claim(world)
    assert mine.max_silence == SILENCE
    world.advance(SILENCE - 0.001)
    assert not heartbeat(world, mine).stuck
    assert not owner(world).stuck
    world.advance(0.001)
    assert owner(world).stuck, "everybody can see it, before it is recorded"
    assert claim(world, owner="bob").stuck
    assert world.ask(GetFigures()).stuck == 1
    assert world.event_types() == ["claimed"]
    assert heartbeat(world, mine).stuck
    *_, event = world.events()
    assert (event.type, event.actor, event.agent, event.reason) == ("stuck", "octostore", "ann", "no progress for 60 s")
    assert event.data["last_progress_at"] == owner(world).last_progress_at == mine.claimed_at


def test_each_stall_is_logged_once(world: World) -> None:
    mine = claim(world)
    for report in ({"note": "half"}, {"percent": 50}, {}):
        for _ in range(3):
            world.advance(SILENCE)
            assert heartbeat(world, mine).stuck
        assert not heartbeat(world, mine, **report).stuck or not report
    assert world.event_types() == ["claimed", "stuck", "stuck", "stuck"]
    assert [event.data.get("note") for event in world.events()[1:]] == [None, "half", "half"]


def test_a_stall_is_logged_again_after_progress_at_the_same_moment(world: World) -> None:
    mine = claim(world)
    world.advance(SILENCE)
    lease = mine.lease_id or ""
    world.batch([HeartbeatJob(job_id="job", lease_id=lease), HeartbeatJob(job_id="job", lease_id=lease, note="go")])
    world.advance(SILENCE)
    heartbeat(world, mine)
    assert world.event_types() == ["claimed", "stuck", "stuck"]


@pytest.mark.parametrize("number", [None, 7])
def test_a_checkpoint_is_progress(world: World, number: int | None) -> None:
    mine = claim(world)
    world.advance(SILENCE - 1)
    world.do(CheckpointJob(job_id="job", lease_id=mine.lease_id or "", data=b"1", number=number))
    world.advance(SILENCE - 1)
    assert not heartbeat(world, mine).stuck
    world.advance(1)
    assert heartbeat(world, mine).stuck


def test_a_late_report_is_not_progress(world: World) -> None:
    mine = claim(world)
    heartbeat(world, mine, note="second", number=2)
    world.advance(SILENCE)
    assert heartbeat(world, mine, note="first", number=1).stuck


def test_without_a_limit_nobody_is_ever_stuck(world: World) -> None:
    mine = claim(world, max_silence=None, ttl=86_400)
    world.advance(86_000)
    assert not heartbeat(world, mine).stuck
    assert (owner(world).stuck, owner(world).max_silence, owner(world).last_progress_at) == (False, None, None)
    assert world.ask(GetFigures()).stuck == 0


def test_an_owner_without_heartbeats_has_expired_and_is_not_stuck(world: World) -> None:
    claim(world, ttl=SILENCE)
    world.advance(SILENCE)
    assert world.ask(GetFigures()).stuck == 0
    assert world.ask(GetJob(job_id="job")).claim is None


def test_the_next_owner_starts_over(world: World) -> None:
    world.do(Enqueue(job_id="job", kind="build"))
    first = world.do(ClaimNext(owner="ann", max_silence=SILENCE, ttl=600))
    world.advance(SILENCE)
    assert heartbeat(world, first).stuck
    world.do(ForceReleaseJob(job_id="job"))
    second = world.do(ClaimNext(owner="bob", max_silence=SILENCE, ttl=600))
    assert not heartbeat(world, second).stuck
    world.advance(SILENCE)
    assert heartbeat(world, second).stuck
    assert world.event_types().count("stuck") == 2


def test_replaying_the_log_restores_when_it_was_stuck(world: World) -> None:
    mine = claim(world)
    world.advance(SILENCE)
    heartbeat(world, mine)
    replayed = replay(world.log()).job("job")
    assert replayed.claim is not None
    assert replayed.claim.stuck_at is not None
    assert isinstance(world.backend, MemoryBackend)
    assert logged_job(replayed) == logged_job(world.backend.rows.jobs["job"])


@pytest.mark.parametrize("silence", [0, 0.5, 86_401, True, "10"])
def test_a_bad_max_silence_is_refused(world: World, silence: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        claim(world, max_silence=silence)
    assert caught.value.field == "max_silence"
