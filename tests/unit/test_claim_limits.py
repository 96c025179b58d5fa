"""How many live claims a principal may have at once; locks and other claims are counted separately."""

import pickle
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.commands import (
    AcquireLock,
    AnyCommand,
    ClaimJob,
    ClaimNext,
    CloseSession,
    Enqueue,
    ForceReleaseJob,
    OpenSession,
    ReleaseJob,
    ReleaseLock,
)
from octostore.core.errors import Conflict, LimitExceeded
from octostore.core.replies import ClaimReply
from tests.support.world import World


def lock(job_id: str, principal: str = "ann", **terms: Any) -> AcquireLock:
    return AcquireLock(**{"job_id": job_id, "owner": "worker", "principal": principal, "max_claims": 2, **terms})


def job(job_id: str, principal: str = "ann", **terms: Any) -> ClaimJob:
    return ClaimJob(**{"job_id": job_id, "owner": "worker", "principal": principal, "max_claims": 2, **terms})


def lease(reply: ClaimReply) -> str:
    assert reply.lease_id is not None, reply
    return reply.lease_id


def statuses(replies: list[Any]) -> list[Any]:
    return [reply.status if isinstance(reply, ClaimReply) else type(reply) for reply in replies]


@pytest.mark.parametrize("claim", [lock, job])
def test_one_more_than_the_limit_is_refused_and_changes_nothing(world: World, claim: Any) -> None:
    world.do(claim("a"))
    world.do(claim("b"))
    with pytest.raises(LimitExceeded) as caught:
        world.do(claim("c"))
    assert (caught.value.limit, caught.value.code) == (2, "limit_exceeded")
    assert isinstance(caught.value, Conflict)
    assert ("locks" if claim is lock else "claims") in str(caught.value)
    assert len(world.log()) == 2
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy), vars(copy)) == (LimitExceeded, str(caught.value), vars(caught.value))


def test_without_max_claims_nothing_is_refused(world: World) -> None:
    replies = world.batch([lock(f"lock-{n}", max_claims=None) for n in range(150)])
    assert set(statuses(replies)) == {"claimed"}


def test_locks_and_other_claims_are_counted_separately(world: World) -> None:
    commands: list[AnyCommand] = [lock("a"), job("b"), lock("c"), job("d")]
    assert statuses([world.do(command) for command in commands]) == ["claimed"] * 4
    assert statuses(world.batch([lock("e"), job("f")])) == [LimitExceeded] * 2


def test_principals_are_counted_separately(world: World) -> None:
    for job_id in ("a", "b"):
        world.do(lock(job_id))
    assert world.do(lock("c", "bob")).status == "claimed"
    assert statuses(world.batch([lock("d", "bob"), lock("e", "bob"), lock("e")])) == [
        "claimed",
        LimitExceeded,
        LimitExceeded,
    ]


def test_claims_made_without_a_limit_still_count(world: World) -> None:
    world.do(ClaimJob(job_id="a", owner="worker", principal="ann"))
    replies = world.batch([ClaimJob(job_id="b", owner="worker", principal="ann"), job("c")])
    assert statuses(replies) == ["claimed", LimitExceeded]


def test_claim_next_counts_like_a_claim_by_name(world: World) -> None:
    for job_id in ("a", "b"):
        world.do(Enqueue(job_id=job_id, kind="build"))
    take = ClaimNext(owner="worker", principal="ann", max_claims=1)
    world.do(take)
    with pytest.raises(LimitExceeded):
        world.do(take)
    assert world.do(ClaimNext(owner="worker", principal="bob", max_claims=1)).job_id == "b"
    assert world.do(take).status == "empty", "an empty queue has nothing to refuse"


def test_at_the_limit_renewals_replays_and_held_replies_still_work(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build"))
    first = world.do(lock("a", max_claims=1))
    mine = world.do(job("b", max_claims=1, request_id="r"))
    assert world.do(lock("a", max_claims=1)).lease_id == first.lease_id
    assert world.do(job("b", max_claims=1, request_id="r")).lease_id == mine.lease_id
    assert world.do(job("a", max_claims=1)).status == "held"
    assert world.do(lock("b", max_claims=1)).status == "held"


def test_a_released_claim_frees_a_slot(world: World) -> None:
    first = world.do(lock("a", max_claims=1))
    world.do(ReleaseLock(job_id="a", lease_id=lease(first)))
    assert world.do(lock("b", max_claims=1)).status == "claimed"


@pytest.mark.parametrize("outcome", ["released", "done", "failed", "deferred"])
def test_a_claim_that_ends_in_any_way_frees_a_slot_within_the_batch(world: World, outcome: Any) -> None:
    first = world.do(job("a", max_claims=1))
    replies = world.batch(
        [
            job("b", max_claims=1),
            ReleaseJob(job_id="a", lease_id=lease(first), outcome=outcome),
            job("c", max_claims=1),
            job("d", max_claims=1),
        ]
    )
    assert statuses([replies[0], *replies[2:]]) == [LimitExceeded, "claimed", LimitExceeded]


def test_a_forced_release_frees_a_slot_of_the_owner(world: World) -> None:
    world.do(lock("a", max_claims=1))
    world.do(lock("b", "bob", max_claims=1))
    replies = world.batch(
        [ForceReleaseJob(job_id="a", principal="root"), lock("c", "bob", max_claims=1), lock("c", max_claims=1)]
    )
    assert statuses(replies[1:]) == [LimitExceeded, "claimed"]


def test_a_slot_is_freed_for_the_same_kind_of_claim(world: World) -> None:
    first = world.do(lock("a", max_claims=1))
    world.do(job("b", max_claims=1))
    replies = world.batch(
        [ReleaseLock(job_id="a", lease_id=lease(first)), job("c", max_claims=1), lock("d", max_claims=1)]
    )
    assert statuses(replies[1:]) == [LimitExceeded, "claimed"]


def test_an_expired_claim_frees_a_slot_at_once(world: World) -> None:
    for claim in (lock, job):
        world.do(claim(f"first-{claim.__name__}", ttl=10, max_claims=1))
    world.advance(10)
    commands: list[AnyCommand] = [claim(f"{n}-{claim.__name__}", max_claims=1) for n in (1, 2) for claim in (lock, job)]
    assert statuses(world.batch(commands)) == ["claimed", "claimed", LimitExceeded, LimitExceeded]


def test_ephemeral_locks_free_their_slots_with_their_session(world: World) -> None:
    def bound(job_id: str) -> AcquireLock:
        return lock(job_id, session_id="s", ephemeral=True)

    opening = OpenSession(session_id="s", agent="ann", principal="ann", ttl=30, without_lease=True)
    world.do(opening)
    assert statuses(world.batch([bound("a"), bound("b"), bound("c")])) == ["claimed", "claimed", LimitExceeded]
    replies = world.batch(
        [CloseSession(session_id="s", lease_id=None, principal="ann"), opening, bound("c"), lock("d")]
    )
    assert statuses(replies[2:]) == ["claimed", "claimed"]
    world.advance(30)
    assert world.do(lock("e")).status == "claimed", "the session has expired"


LIMIT = 3


@given(
    st.lists(
        st.tuples(st.sampled_from(["lock", "job", "release"]), st.sampled_from(["ann", "bob"]), st.integers(0, 7)),
        max_size=30,
    ),
    st.integers(1, 6),
)
def test_no_principal_exceeds_the_limit_or_is_refused_below_it(steps: list[tuple[str, str, int]], size: int) -> None:
    world = World()
    held: dict[str, tuple[str, str]] = {}
    for start in range(0, len(steps), size):
        commands: list[AnyCommand] = []
        for action, principal, number in steps[start : start + size]:
            name = f"job-{number}"
            if action == "release":
                commands.append(ForceReleaseJob(job_id=name))
            else:
                commands.append((lock if action == "lock" else job)(name, principal, max_claims=LIMIT))
        for command, reply in zip(commands, world.batch(commands), strict=True):
            if isinstance(command, ForceReleaseJob):
                held.pop(command.job_id, None)
                continue
            assert isinstance(command, AcquireLock | ClaimJob)
            which = (command.principal, type(command).__name__)
            if isinstance(reply, LimitExceeded):
                assert Counter(held.values())[which] == LIMIT
                assert command.job_id not in held
            elif reply.status == "claimed":
                held[command.job_id] = which
                assert Counter(held.values())[which] <= LIMIT
