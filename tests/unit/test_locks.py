"""Locks: claims whose holder may acquire them again. The holder is a principal, or one of its sessions."""

from typing import Any

import msgspec
import pytest

from octostore.core.commands import (
    AcquireLock,
    CheckpointJob,
    ClaimJob,
    ClaimNext,
    CloseSession,
    Enqueue,
    ForceReleaseJob,
    HeartbeatJob,
    OpenSession,
    ReleaseJob,
    ReleaseLock,
    Undo,
)
from octostore.core.errors import InvalidInput, LeaseLost, NotFound
from octostore.core.limits import PREVIOUS_KEPT
from octostore.core.questions import GetJob, GetSession
from octostore.core.replies import ClaimReply
from tests.support.world import World


def acquire(world: World, principal: str = "ann", **terms: Any) -> ClaimReply:
    return world.do(AcquireLock(**{"job_id": "lock", "owner": principal, "principal": principal, **terms}))


def lease(reply: ClaimReply) -> str:
    assert reply.lease_id is not None, reply
    return reply.lease_id


def open_session(world: World, session_id: str = "s", principal: str = "ann", ttl: float = 30) -> None:
    opening = OpenSession(session_id=session_id, agent=principal, principal=principal, ttl=ttl, without_lease=True)
    world.do(opening)


def test_a_free_lock_is_acquired(world: World) -> None:
    reply = acquire(world, metadata=b'"deploying"')
    assert (reply.status, reply.owner, reply.metadata, reply.replayed) == ("claimed", "ann", "deploying", False)
    assert (reply.ttl, reply.remaining_ms) == (60, 60_000)
    assert reply.fencing_token == world.log()[0].seq
    assert b'"is_lock":true' in world.log()[0].details


def test_acquiring_a_lock_again_renews_it_and_changes_nothing_else(world: World) -> None:
    first = acquire(world, metadata=b'"first"', ttl=60, lock_delay=5)
    world.advance(40)
    again = acquire(world, owner="another name", metadata=b'"first"', ttl=90, lock_delay=0)
    assert (again.status, again.replayed) == ("claimed", True)
    assert (again.lease_id, again.fencing_token) == (first.lease_id, first.fencing_token)
    assert (again.owner, again.metadata, again.claimed_at) == ("ann", "first", first.claimed_at)
    assert (again.ttl, again.remaining_ms, again.renew_after_ms) == (90, 90_000, 30_000)
    assert world.event_types() == ["claimed"]
    world.advance(89)
    assert acquire(world, "bob").status == "held"
    world.advance(1)
    assert acquire(world, "bob").status == "delayed", "the lock delay is still that of the first call"


def test_acquiring_a_lock_again_may_shorten_its_ttl(world: World) -> None:
    acquire(world, ttl=3_600)
    assert acquire(world, ttl=1).remaining_ms == 1_000
    world.advance(1)
    assert acquire(world, "bob").status == "claimed"


def test_acquiring_a_lock_again_is_a_heartbeat(world: World) -> None:
    first = acquire(world)
    world.advance(40)
    acquire(world)
    owner = world.ask(GetJob(job_id="lock")).claim
    assert owner is not None
    assert first.claimed_at is not None
    assert (owner.heartbeat_at - first.claimed_at).total_seconds() == 40


def test_a_lock_is_acquired_again_within_a_batch(world: World) -> None:
    terms: dict[str, Any] = {"job_id": "lock", "owner": "ann"}
    first, again, other = world.batch(
        [
            AcquireLock(**terms, principal="ann", ttl=10),
            AcquireLock(**terms, principal="ann", ttl=20),
            AcquireLock(**terms, principal="bob"),
        ]
    )
    assert (again.lease_id, again.remaining_ms) == (first.lease_id, 20_000)
    assert (other.status, other.retry_after_ms) == ("held", 20_000)
    world.advance(19)
    assert acquire(world, "bob").status == "held", "the last renewal was saved"


def test_others_see_who_holds_it_but_no_lease_id(world: World) -> None:
    first = acquire(world, metadata=b'"deploying"', ttl=60)
    world.advance(10)
    other = acquire(world, "bob")
    assert (other.status, other.owner, other.metadata) == ("held", "ann", "deploying")
    assert (other.retry_after_ms, other.fencing_token) == (50_000, first.fencing_token)
    assert other.lease_id is None


def test_the_principal_holds_it_not_the_owner_name(world: World) -> None:
    acquire(world, "ann", owner="worker")
    assert acquire(world, "bob", owner="worker").status == "held"


def test_after_its_expiry_even_its_holder_gets_a_new_lease(world: World) -> None:
    first = acquire(world, ttl=10)
    world.advance(10)
    second = acquire(world)
    assert not second.replayed
    assert second.lease_id != first.lease_id
    assert (second.fencing_token or 0) > (first.fencing_token or 0)
    assert world.event_types() == ["claimed", "expired", "claimed"]


def test_expiry_and_release_free_it_for_others(world: World) -> None:
    acquire(world, ttl=10)
    world.advance(10)
    second = acquire(world, "bob")
    assert second.status == "claimed"
    released = world.do(ReleaseLock(job_id="lock", lease_id=lease(second), principal="bob"))
    assert (released.outcome, released.status) == ("released", "free")
    assert acquire(world, "cyd").status == "claimed"


def test_a_release_is_not_repeated(world: World) -> None:
    release = ReleaseLock(job_id="lock", lease_id=lease(acquire(world)))
    world.do(release)
    with pytest.raises(LeaseLost) as caught:
        world.do(release)
    assert caught.value.ended is not None
    assert caught.value.ended.how == "released"
    assert world.event_types() == ["claimed", "released"]


def test_a_late_release_does_not_end_the_lock_of_the_next_holder(world: World) -> None:
    first = acquire(world, ttl=10)
    world.advance(10)
    second = acquire(world, "bob")
    with pytest.raises(LeaseLost) as caught:
        world.do(ReleaseLock(job_id="lock", lease_id=lease(first)))
    assert caught.value.holder is not None
    assert caught.value.holder.fencing_token == second.fencing_token


def test_a_release_needs_the_lease(world: World) -> None:
    acquire(world)
    with pytest.raises(LeaseLost):
        world.do(ReleaseLock(job_id="lock", lease_id="guessed"))
    with pytest.raises(InvalidInput):
        ReleaseLock(job_id="lock", lease_id="")


def test_a_lock_delay_keeps_everybody_out_for_a_while(world: World) -> None:
    first = acquire(world, lock_delay=10)
    world.do(ReleaseLock(job_id="lock", lease_id=lease(first)))
    for principal in ("bob", "ann"):
        reply = acquire(world, principal)
        assert (reply.status, reply.retry_after_ms) == ("delayed", 10_000)
    world.advance(10)
    assert acquire(world, "bob").status == "claimed"


def test_a_lease_of_a_lock_authorises_heartbeats_too(world: World) -> None:
    first = acquire(world, ttl=10)
    world.advance(8)
    assert world.do(HeartbeatJob(job_id="lock", lease_id=lease(first))).remaining_ms == 10_000
    world.do(ForceReleaseJob(job_id="lock"))
    assert acquire(world).lease_id != first.lease_id


# Locks and other claims on the same name


def test_a_claim_by_the_same_principal_is_not_a_lock(world: World) -> None:
    claimed = world.do(ClaimJob(job_id="lock", owner="ann", principal="ann", request_id="r"))
    assert acquire(world).status == "held"
    assert acquire(world, request_id="r").status == "held"
    world.do(ReleaseJob(job_id="lock", lease_id=lease(claimed)))
    assert acquire(world).status == "claimed"


def test_claiming_a_job_that_is_locked_gets_held(world: World) -> None:
    acquire(world)
    assert world.do(ClaimJob(job_id="lock", owner="ann", principal="ann")).status == "held"


def test_a_queued_task_can_be_acquired_and_goes_back_to_its_queue(world: World) -> None:
    world.do(Enqueue(job_id="lock", kind="build"))
    reply = acquire(world)
    assert world.do(ClaimNext(owner="bob")).status == "empty"
    world.do(ReleaseLock(job_id="lock", lease_id=lease(reply)))
    assert world.do(ClaimNext(owner="bob")).job_id == "lock"


@pytest.mark.parametrize("way", ["released", "failed", "deferred", "expired", "forced", "undone"])
@pytest.mark.parametrize("is_queued", [True, False])
def test_a_lock_leaves_a_finished_job_as_it_was(world: World, way: str, is_queued: bool) -> None:
    if is_queued:
        world.do(Enqueue(job_id="lock", kind="build", max_attempts=2))
    done = world.do(ClaimJob(job_id="lock", owner="bob"))
    world.do(ReleaseJob(job_id="lock", lease_id=lease(done), outcome="done", result=b"7", note="built"))
    before = state(world)
    for _ in range(PREVIOUS_KEPT + 1):
        lock = acquire(world)
        ends: dict[str, Any] = {
            "expired": HeartbeatJob(job_id="other", lease_id="x"),
            "forced": ForceReleaseJob(job_id="lock"),
            "undone": Undo(job_id="lock", lease_id=lease(lock)),
        }
        if way == "expired":
            world.advance(60)
        end = ends.get(way) or ReleaseJob(job_id="lock", lease_id=lease(lock), outcome=way, error="why")  # type: ignore[arg-type]
        world.batch([end])
        assert state(world) == before
    gone = world.do(ClaimJob(job_id="lock", owner="bob", again=True))
    world.do(Undo(job_id="lock", lease_id=lease(gone)))
    assert state(world) == before


def test_a_finished_job_starts_from_scratch_after_a_lock(world: World) -> None:
    done = world.do(ClaimJob(job_id="lock", owner="bob"))
    world.do(ReleaseJob(job_id="lock", lease_id=lease(done), outcome="done"))
    lock = acquire(world)
    world.do(CheckpointJob(job_id="lock", lease_id=lease(lock), data=b'{"step":3}'))
    world.do(ReleaseLock(job_id="lock", lease_id=lease(lock)))
    assert world.do(ClaimJob(job_id="lock", owner="bob", again=True)).checkpoint is None


def state(world: World) -> list[object]:
    job = world.ask(GetJob(job_id="lock"))
    return [job.status, job.attempts, job.result, job.last_outcome, job.error, job.note]


def test_a_dead_job_cannot_be_acquired(world: World) -> None:
    world.do(Enqueue(job_id="lock", kind="build", max_attempts=1))
    failed = world.do(ClaimNext(owner="bob"))
    world.do(ReleaseJob(job_id="lock", lease_id=lease(failed), outcome="failed"))
    assert acquire(world).status == "dead"


# With a session


def test_an_ephemeral_lock_ends_with_its_session(world: World) -> None:
    open_session(world, ttl=30)
    reply = acquire(world, session_id="s", ephemeral=True, ttl=600)
    assert (reply.session_id, reply.remaining_ms, reply.ttl) == ("s", 30_000, 30)
    world.advance(29)
    assert acquire(world, "bob").status == "held"
    world.advance(1)
    assert acquire(world, "bob").status == "claimed"
    with pytest.raises(LeaseLost):
        world.do(ReleaseLock(job_id="lock", lease_id=lease(reply)))


def test_an_ephemeral_lock_is_released_when_its_session_is_closed(world: World) -> None:
    open_session(world)
    acquire(world, session_id="s", ephemeral=True)
    world.do(CloseSession(session_id="s", lease_id=None, principal="ann"))
    assert world.event_types()[-2:] == ["released", "session_closed"]
    assert acquire(world, "bob").status == "claimed"


def test_an_ephemeral_lock_belongs_to_its_session_and_not_to_its_principal(world: World) -> None:
    for session_id in ("s", "t"):
        open_session(world, session_id)
    first = acquire(world, session_id="s", ephemeral=True)
    assert acquire(world, session_id="t", ephemeral=True).status == "held"
    assert acquire(world).status == "held", "the principal itself does not hold it"
    assert acquire(world, session_id="s").status == "held"
    again = acquire(world, session_id="s", ephemeral=True)
    assert (again.lease_id, again.replayed) == (first.lease_id, True)


def test_a_session_does_not_hold_the_lock_of_its_principal(world: World) -> None:
    open_session(world)
    acquire(world)
    assert acquire(world, session_id="s", ephemeral=True).status == "held"


def test_acquiring_an_ephemeral_lock_again_does_not_outlive_the_session(world: World) -> None:
    open_session(world, ttl=30)
    acquire(world, session_id="s", ephemeral=True)
    world.advance(20)
    again = acquire(world, session_id="s", ephemeral=True, ttl=600)
    assert (again.remaining_ms, again.ttl) == (10_000, 30)
    assert again.heartbeat_at is not None
    assert again.expires_at is not None
    assert (again.expires_at - again.heartbeat_at).total_seconds() == 10


def test_a_lock_that_is_not_ephemeral_only_needs_the_session_to_exist(world: World) -> None:
    open_session(world, ttl=30)
    reply = acquire(world, session_id="s", ttl=60)
    assert (reply.session_id, reply.remaining_ms) == (None, 60_000)
    assert world.ask(GetSession(session_id="ann/s")).jobs == []
    world.do(CloseSession(session_id="s", lease_id=None, principal="ann"))
    again = acquire(world)
    assert (again.lease_id, again.replayed) == (reply.lease_id, True)


@pytest.mark.parametrize("ephemeral", [True, False])
@pytest.mark.parametrize("is_free", [True, False])
def test_the_session_of_another_principal_is_not_found(world: World, ephemeral: bool, is_free: bool) -> None:
    open_session(world, "strange", "bob")
    if not is_free:
        acquire(world, "cyd")
    before = world.event_types()
    for session_id in ("strange", "none"):
        with pytest.raises(NotFound):
            acquire(world, session_id=session_id, ephemeral=ephemeral)
    assert world.event_types() == before


@pytest.mark.parametrize("ephemeral", [True, False])
def test_a_session_that_has_ended_gets_no_locks(world: World, ephemeral: bool) -> None:
    open_session(world, ttl=30)
    acquire(world, session_id="s", ephemeral=ephemeral, ttl=60)
    world.advance(30)
    with pytest.raises(LeaseLost):
        acquire(world, session_id="s", ephemeral=ephemeral)


def test_an_ephemeral_lock_needs_a_session() -> None:
    with pytest.raises(InvalidInput) as caught:
        AcquireLock(job_id="lock", owner="ann", ephemeral=True)
    assert caught.value.field == "ephemeral"


# Limits


@pytest.mark.parametrize("ttl", [1, 3_600])
def test_a_lock_lasts_from_a_second_to_an_hour(ttl: float) -> None:
    AcquireLock(job_id="lock", owner="ann", ttl=ttl)


@pytest.mark.parametrize("ttl", [0, 0.999, 3_600.001, 86_400, float("nan"), "60", True])
def test_a_shorter_or_longer_ttl_is_refused(ttl: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        AcquireLock(job_id="lock", owner="ann", ttl=ttl)
    assert caught.value.field == "ttl"


@pytest.mark.parametrize("text", ["x" * 1_024, '"' * 1_024, "é" * 1_024, "\n" * 1_024, "😀" * 1_024, ""])
def test_metadata_is_measured_as_text_and_not_as_json(world: World, text: str) -> None:
    assert acquire(world, metadata=msgspec.json.encode(text)).metadata == text


@pytest.mark.parametrize("character", ["x", "é", "😀", "\n"])
def test_metadata_has_at_most_1024_characters(character: str) -> None:
    with pytest.raises(InvalidInput, match=r"^metadata is 1,025 characters; the limit is 1,024$") as caught:
        AcquireLock(job_id="lock", owner="ann", metadata=msgspec.json.encode(character * 1_025))
    assert (caught.value.field, caught.value.limit, caught.value.size) == ("metadata", 1_024, 1_025)


@pytest.mark.parametrize("metadata", [b"1", b'{"text":1}', b'["text"]', b"true", b'"nul\\u0000"'])
def test_metadata_is_text(metadata: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        AcquireLock(job_id="lock", owner="ann", metadata=metadata)
    assert caught.value.field == "metadata"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("job_id", "a b"),
        ("owner", ""),
        ("owner", "two\nlines"),
        ("lock_delay", 31),
        ("lock_delay", -1),
        ("session_id", ""),
        ("session_id", "a/b"),
        ("request_id", ""),
        ("request_id", "r" * 129),
    ],
)
def test_every_other_field_has_the_limits_of_claims(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        AcquireLock(**{"job_id": "lock", "owner": "ann", field: value})
    assert caught.value.field == field
