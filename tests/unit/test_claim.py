"""One live claim per job, and it belongs to the call that made it."""

from typing import Any

import pytest

from octostore.core.commands import (
    ClaimJob,
    Enqueue,
    ForceReleaseJob,
    HeartbeatJob,
    OpenSession,
    ReleaseJob,
    RequeueJob,
)
from octostore.core.errors import InvalidInput, LeaseLost
from octostore.core.moments import to_datetime
from octostore.core.questions import GetJob
from octostore.core.replies import ClaimReply
from tests.support.world import World


def claim(world: World, job_id: str = "job", owner: str = "ann", **terms: object) -> ClaimReply:
    return world.do(ClaimJob(job_id=job_id, owner=owner, **terms))  # type: ignore[arg-type]


def lease(reply: ClaimReply) -> str:
    assert reply.lease_id is not None, reply
    return reply.lease_id


def test_a_free_job_is_claimed(world: World) -> None:
    reply = claim(world, metadata=b'{"branch":"fix"}', ttl=30)
    assert reply.status == "claimed"
    assert (reply.owner, reply.metadata, reply.attempt) == ("ann", {"branch": "fix"}, 1)
    assert (reply.ttl, reply.remaining_ms, reply.renew_after_ms) == (30, 30_000, 10_000)
    assert reply.lease_id


def test_a_claim_knows_its_process(world: World) -> None:
    claim(world, host="runner-7", pid=4711)
    held = claim(world, owner="bob", host="runner-8", pid=1)
    owner = world.ask(GetJob(job_id="job")).claim
    assert owner is not None
    assert (owner.host, owner.pid) == (held.host, held.pid) == ("runner-7", 4711)
    (event,) = world.events()
    assert (event.data["host"], event.data["pid"]) == ("runner-7", 4711)


@pytest.mark.parametrize(("field", "value"), [("host", ""), ("host", "a\nb"), ("host", "x" * 257), ("pid", 0)])
def test_a_bad_host_or_pid_is_refused(world: World, field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        claim(world, "job", "ann", **{field: value})
    assert caught.value.field == field


def test_the_loser_sees_everything_about_the_owner(world: World) -> None:
    winner = claim(world, metadata=b'{"pr":7}', ttl=60)
    world.advance(10)
    world.do(HeartbeatJob(job_id="job", lease_id=lease(winner), note="running tests", percent=40))
    world.advance(5)
    loser = claim(world, owner="bob")
    assert loser.status == "held"
    assert (loser.owner, loser.metadata, loser.fencing_token) == ("ann", {"pr": 7}, winner.fencing_token)
    assert loser.claimed_at == winner.claimed_at
    assert loser.heartbeat_at is not None
    assert loser.expires_at is not None
    assert (loser.expires_at - loser.heartbeat_at).total_seconds() == 60
    assert loser.progress is not None
    assert (loser.progress.note, loser.progress.percent) == ("running tests", 40)
    assert loser.retry_after_ms == 55_000
    assert loser.lease_id is None


def test_a_second_claim_by_the_same_owner_gets_held(world: World) -> None:
    claim(world)
    assert claim(world).status == "held"
    assert world.event_types() == ["claimed"]


def test_the_same_request_gets_the_same_claim_back(world: World) -> None:
    first = claim(world, request_id="r1")
    world.advance(20)
    again = claim(world, request_id="r1")
    assert again.replayed
    assert not first.replayed
    assert (again.lease_id, again.fencing_token) == (first.lease_id, first.fencing_token)
    assert again.remaining_ms == 100_000, "a replay is the same claim, not a longer one"
    assert world.event_types() == ["claimed"]


def test_the_same_request_from_another_principal_gets_held(world: World) -> None:
    claim(world, request_id="r1", principal="ann")
    assert claim(world, request_id="r1", principal="bob").status == "held"


def test_a_request_whose_claim_has_ended_does_not_claim_again(world: World) -> None:
    first = claim(world, request_id="r1")
    world.do(ReleaseJob(job_id="job", lease_id=lease(first)))
    with pytest.raises(LeaseLost, match=r"ended at .* UTC \(released\)") as lost:
        claim(world, request_id="r1")
    assert lost.value.ended is not None
    assert (lost.value.ended.how, lost.value.ended.fencing_token) == ("released", first.fencing_token)
    assert world.ask(GetJob(job_id="job")).status == "free"


def test_the_fencing_token_is_the_seq_of_the_claimed_event(world: World) -> None:
    tokens = []
    for number in range(3):
        reply = claim(world, f"job-{number}")
        tokens.append(reply.fencing_token)
        world.do(ReleaseJob(job_id=f"job-{number}", lease_id=lease(reply)))
    assert tokens == [entry.seq for entry in world.log() if entry.type == "claimed"]
    assert [entry.seq for entry in world.log()] == list(range(1, 7))


def test_claiming_a_done_job_returns_done_with_its_result(world: World) -> None:
    first = claim(world)
    world.do(ReleaseJob(job_id="job", lease_id=lease(first), outcome="done", result=b'{"ok":true}'))
    reply = claim(world, owner="bob")
    assert (reply.status, reply.result, reply.lease_id) == ("done", {"ok": True}, None)
    assert reply.previous[0].owner == "ann"


@pytest.mark.parametrize("way", ["again", "requeue"])
def test_a_done_job_is_claimed_again_on_request(world: World, way: str) -> None:
    first = claim(world)
    world.do(ReleaseJob(job_id="job", lease_id=lease(first), outcome="done", result=b"1"))
    if way == "requeue":
        world.do(RequeueJob(job_id="job"))
    reply = claim(world, again=way == "again")
    assert (reply.status, reply.attempt) == ("claimed", 1)


def test_a_late_write_learns_who_owns_the_job_and_how_the_lease_ended(world: World) -> None:
    first = claim(world, ttl=10)
    world.advance(11)
    second = claim(world, owner="bob")
    with pytest.raises(LeaseLost) as caught:
        world.do(HeartbeatJob(job_id="job", lease_id=lease(first)))
    assert caught.value.holder is not None
    assert caught.value.holder.owner == "bob"
    assert caught.value.holder.claimed_at == second.claimed_at
    assert caught.value.ended is not None
    assert caught.value.ended.how == "expired"
    assert "bob" in str(caught.value)
    assert lease(first) not in str(caught.value)


def test_an_unknown_lease_is_lost(world: World) -> None:
    claim(world)
    with pytest.raises(LeaseLost) as caught:
        world.do(HeartbeatJob(job_id="job", lease_id="guessed"))
    assert caught.value.ended is None


def test_a_successor_gets_what_the_last_attempts_left(world: World) -> None:
    world.do(Enqueue(job_id="job", kind="build", payload=b'{"n":1}', max_attempts=10))
    for number in range(7):
        reply = claim(world, owner=f"worker-{number}")
        error = f"broke {number}"
        end = ReleaseJob(job_id="job", lease_id=lease(reply), outcome="failed", error=error, note=f"note {number}")
        world.do(end)
        world.advance(3_600)
    reply = claim(world)
    assert [attempt.owner for attempt in reply.previous] == [f"worker-{number}" for number in (6, 5, 4, 3, 2)]
    assert [attempt.error for attempt in reply.previous] == [f"broke {number}" for number in (6, 5, 4, 3, 2)]
    assert all(attempt.how == "failed" and attempt.ended_at >= attempt.claimed_at for attempt in reply.previous)
    assert (reply.note, reply.attempt, reply.payload) == ("note 6", 8, {"n": 1})


def test_a_takeover_says_from_whom(world: World) -> None:
    claim(world, ttl=5)
    world.advance(5)
    claim(world, owner="bob")
    assert world.event_types() == ["claimed", "expired", "claimed"]
    assert b'"took_over_from":"ann"' in world.log()[2].details


def test_a_job_shows_only_fields_that_fit_its_status(world: World) -> None:
    first = claim(world)
    view = world.ask(GetJob(job_id="job"))
    assert (view.available_at, view.queue, view.priority, view.max_attempts) == (None, None, None, None)
    world.advance(5)
    world.do(ReleaseJob(job_id="job", lease_id=lease(first), outcome="deferred", retry_after=7, note="later"))
    view = world.ask(GetJob(job_id="job"))
    assert view.available_at == to_datetime(world.clock.now_ms + 7_000)
    assert (view.created_at, view.note) == (first.claimed_at, "later")


def test_a_delayed_claim_says_why(world: World) -> None:
    end = ReleaseJob(job_id="job", lease_id=lease(claim(world)), outcome="failed", error="no disk", retry_after=9)
    world.do(end)
    reply = claim(world, owner="bob")
    assert (reply.status, reply.error, reply.previous[0].owner) == ("delayed", "no disk", "ann")


def test_claiming_a_done_job_returns_its_last_note(world: World) -> None:
    world.do(ReleaseJob(job_id="job", lease_id=lease(claim(world)), outcome="done", note="merged"))
    reply = claim(world, owner="bob")
    assert (reply.status, reply.note) == ("done", "merged")


def test_a_replayed_claim_is_renewed_in_time(world: World) -> None:
    claim(world, request_id="r", ttl=100)
    world.advance(80)
    again = claim(world, request_id="r", ttl=100)
    assert (again.remaining_ms, again.renew_after_ms) == (20_000, 6_666)


def test_every_duration_counts_to_the_millisecond(world: World) -> None:
    first = claim(world, ttl=1.234, lock_delay=0.567)
    assert (first.ttl, first.remaining_ms) == (1.234, 1_234)
    assert world.do(HeartbeatJob(job_id="job", lease_id=lease(first), ttl=2.345)).remaining_ms == 2_345
    world.do(ReleaseJob(job_id="job", lease_id=lease(first)))
    assert claim(world).retry_after_ms == 567
    world.do(
        ReleaseJob(job_id="put-off", lease_id=lease(claim(world, "put-off")), outcome="deferred", retry_after=0.25)
    )
    assert claim(world, "put-off").retry_after_ms == 250
    assert world.do(OpenSession(session_id="s", agent="ann", ttl=3.456)).remaining_ms == 3_456


def test_progress_has_the_time_of_the_last_report(world: World) -> None:
    first = claim(world)
    for note in ("one", "two"):
        world.advance(5)
        world.do(HeartbeatJob(job_id="job", lease_id=lease(first), note=note))
    owner = world.ask(GetJob(job_id="job")).claim
    assert owner is not None
    assert owner.progress is not None
    assert owner.progress.at == to_datetime(world.clock.now_ms)


def took_over_from(world: World) -> str | None:
    """According to the last claim."""
    last = [event for event in world.events() if event.type == "claimed"][-1]
    owner: str | None = last.data.get("took_over_from")
    return owner


def test_a_takeover_after_a_forced_release_says_so_too(world: World) -> None:
    claim(world, owner="ann", ttl=5)
    world.advance(5)
    claim(world, owner="bob")
    assert took_over_from(world) == "ann"
    world.do(ForceReleaseJob(job_id="job"))
    third = claim(world, owner="cyd")
    assert took_over_from(world) == "bob"
    world.do(ReleaseJob(job_id="job", lease_id=lease(third)))
    claim(world, owner="dan")
    assert took_over_from(world) is None, "it was released"


@pytest.mark.parametrize("outcome", ["released", "done", "failed", "deferred"])
def test_a_claim_that_its_owner_ended_is_not_taken_over(world: World, outcome: Any) -> None:
    world.do(ReleaseJob(job_id="job", lease_id=lease(claim(world)), outcome=outcome))
    world.advance(60)
    assert claim(world, owner="bob", again=True).status == "claimed"
    assert took_over_from(world) is None


def test_a_lock_delay_keeps_the_job_unclaimable_for_a_while(world: World) -> None:
    first = claim(world, lock_delay=10)
    world.do(ReleaseJob(job_id="job", lease_id=lease(first)))
    reply = claim(world, owner="bob")
    assert (reply.status, reply.retry_after_ms) == ("delayed", 10_000)
    world.advance(10)
    assert claim(world, owner="bob").status == "claimed"


def test_a_lock_delay_counts_from_the_expiry(world: World) -> None:
    claim(world, ttl=10, lock_delay=5)
    world.advance(12)
    reply = claim(world, owner="bob")
    assert (reply.status, reply.retry_after_ms) == ("delayed", 3_000)


def test_without_a_lock_delay_the_job_is_free_at_once(world: World) -> None:
    world.do(ReleaseJob(job_id="job", lease_id=lease(claim(world))))
    assert claim(world, owner="bob").status == "claimed"


def test_a_claim_lasts_exactly_until_it_expires(world: World) -> None:
    claim(world, ttl=10)
    world.clock.now_ms += 9_999
    assert claim(world, owner="bob").status == "held"
    world.clock.now_ms += 1
    assert world.ask(GetJob(job_id="job")).owner is None
    assert claim(world, owner="bob").status == "claimed"


def test_heartbeats_extend_by_the_ttl_of_the_claim_or_a_new_one(world: World) -> None:
    reply = claim(world, ttl=10)
    world.advance(8)
    assert world.do(HeartbeatJob(job_id="job", lease_id=lease(reply))).remaining_ms == 10_000
    assert world.do(HeartbeatJob(job_id="job", lease_id=lease(reply), ttl=60)).remaining_ms == 60_000
    assert world.do(HeartbeatJob(job_id="job", lease_id=lease(reply))).remaining_ms == 60_000
    assert world.event_types() == ["claimed"]


def test_a_heartbeat_without_progress_keeps_the_last_progress(world: World) -> None:
    reply = claim(world)
    world.do(HeartbeatJob(job_id="job", lease_id=lease(reply), note="half way"))
    world.advance(5)
    world.do(HeartbeatJob(job_id="job", lease_id=lease(reply)))
    owner = world.ask(GetJob(job_id="job")).claim
    assert owner is not None
    assert owner.progress is not None
    assert owner.progress.note == "half way"
    assert owner.heartbeat_at > owner.progress.at, "a heartbeat is not progress"


def test_the_owner_learns_of_a_forced_release(world: World) -> None:
    reply = claim(world)
    world.do(ForceReleaseJob(job_id="job", reason="stuck"))
    with pytest.raises(LeaseLost) as caught:
        world.do(HeartbeatJob(job_id="job", lease_id=lease(reply)))
    assert caught.value.ended is not None
    assert caught.value.ended.how == "force_released"
