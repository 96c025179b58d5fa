"""How many claims a principal may have at once: locks and other claims each by themselves, and only what is alive."""

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


def told(answers: list[Any]) -> list[Any]:
    return [answer.status if isinstance(answer, ClaimReply) else type(answer) for answer in answers]


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


def test_without_a_limit_there_is_none(world: World) -> None:
    answers = world.batch([lock(f"lock-{n}", max_claims=None) for n in range(150)])
    assert set(told(answers)) == {"claimed"}


def test_locks_and_other_claims_are_counted_each_by_themselves(world: World) -> None:
    commands: list[AnyCommand] = [lock("a"), job("b"), lock("c"), job("d")]
    assert told([world.do(command) for command in commands]) == ["claimed"] * 4
    assert told(world.batch([lock("e"), job("f")])) == [LimitExceeded] * 2


def test_each_principal_is_counted_by_itself(world: World) -> None:
    for job_id in ("a", "b"):
        world.do(lock(job_id))
    assert world.do(lock("c", "bob")).status == "claimed"
    assert told(world.batch([lock("d", "bob"), lock("e", "bob"), lock("e")])) == [
        "claimed",
        LimitExceeded,
        LimitExceeded,
    ]


def test_claims_without_a_limit_count_for_those_with_one(world: World) -> None:
    world.do(ClaimJob(job_id="a", owner="worker", principal="ann"))
    answers = world.batch([ClaimJob(job_id="b", owner="worker", principal="ann"), job("c")])
    assert told(answers) == ["claimed", LimitExceeded]


def test_the_next_job_of_a_queue_counts_like_one_by_name(world: World) -> None:
    for job_id in ("a", "b"):
        world.do(Enqueue(job_id=job_id, kind="build"))
    take = ClaimNext(owner="worker", principal="ann", max_claims=1)
    world.do(take)
    with pytest.raises(LimitExceeded):
        world.do(take)
    assert world.do(ClaimNext(owner="worker", principal="bob", max_claims=1)).job_id == "b"
    assert world.do(take).status == "empty", "where there is nothing to have, there is nothing to refuse"


def test_who_has_as_many_as_it_may_gets_every_other_answer(world: World) -> None:
    world.do(Enqueue(job_id="task", kind="build"))
    first = world.do(lock("a", max_claims=1))
    mine = world.do(job("b", max_claims=1, request_id="r"))
    assert world.do(lock("a", max_claims=1)).lease_id == first.lease_id
    assert world.do(job("b", max_claims=1, request_id="r")).lease_id == mine.lease_id
    assert world.do(job("a", max_claims=1)).status == "held"
    assert world.do(lock("b", max_claims=1)).status == "held"


def test_a_released_claim_frees_a_place(world: World) -> None:
    first = world.do(lock("a", max_claims=1))
    world.do(ReleaseLock(job_id="a", lease_id=lease(first)))
    assert world.do(lock("b", max_claims=1)).status == "claimed"


@pytest.mark.parametrize("outcome", ["released", "done", "failed", "deferred"])
def test_a_claim_that_ends_in_any_way_frees_a_place_within_the_batch(world: World, outcome: Any) -> None:
    first = world.do(job("a", max_claims=1))
    answers = world.batch(
        [
            job("b", max_claims=1),
            ReleaseJob(job_id="a", lease_id=lease(first), outcome=outcome),
            job("c", max_claims=1),
            job("d", max_claims=1),
        ]
    )
    assert told([answers[0], *answers[2:]]) == [LimitExceeded, "claimed", LimitExceeded]


def test_a_claim_taken_away_frees_a_place_of_the_one_who_had_it(world: World) -> None:
    world.do(lock("a", max_claims=1))
    world.do(lock("b", "bob", max_claims=1))
    answers = world.batch(
        [ForceReleaseJob(job_id="a", principal="root"), lock("c", "bob", max_claims=1), lock("c", max_claims=1)]
    )
    assert told(answers[1:]) == [LimitExceeded, "claimed"]


def test_a_place_goes_back_to_the_kind_of_claim_that_had_it(world: World) -> None:
    first = world.do(lock("a", max_claims=1))
    world.do(job("b", max_claims=1))
    answers = world.batch(
        [ReleaseLock(job_id="a", lease_id=lease(first)), job("c", max_claims=1), lock("d", max_claims=1)]
    )
    assert told(answers[1:]) == [LimitExceeded, "claimed"]


def test_an_expired_claim_frees_a_place_at_once(world: World) -> None:
    for claim in (lock, job):
        world.do(claim(f"first-{claim.__name__}", ttl=10, max_claims=1))
    world.advance(10)
    commands: list[AnyCommand] = [claim(f"{n}-{claim.__name__}", max_claims=1) for n in (1, 2) for claim in (lock, job)]
    assert told(world.batch(commands)) == ["claimed", "claimed", LimitExceeded, LimitExceeded]


def test_ephemeral_locks_free_their_places_with_their_session(world: World) -> None:
    def bound(job_id: str) -> AcquireLock:
        return lock(job_id, session_id="s", ephemeral=True)

    opening = OpenSession(session_id="s", agent="ann", principal="ann", ttl=30, without_lease=True)
    world.do(opening)
    assert told(world.batch([bound("a"), bound("b"), bound("c")])) == ["claimed", "claimed", LimitExceeded]
    answers = world.batch(
        [CloseSession(session_id="s", lease_id=None, principal="ann"), opening, bound("c"), lock("d")]
    )
    assert told(answers[2:]) == ["claimed", "claimed"]
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
def test_nobody_ever_has_more_than_it_may_and_nobody_is_refused_below(
    steps: list[tuple[str, str, int]], size: int
) -> None:
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
        for command, answer in zip(commands, world.batch(commands), strict=True):
            if isinstance(command, ForceReleaseJob):
                held.pop(command.job_id, None)
                continue
            assert isinstance(command, AcquireLock | ClaimJob)
            which = (command.principal, type(command).__name__)
            if isinstance(answer, LimitExceeded):
                assert Counter(held.values())[which] == LIMIT
                assert command.job_id not in held
            elif answer.status == "claimed":
                held[command.job_id] = which
                assert Counter(held.values())[which] <= LIMIT
