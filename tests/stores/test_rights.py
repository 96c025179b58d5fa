"""Tokens and claim limits, where the stored state matters and not only the decision."""

from typing import Any

import pytest

from octostore.core.commands import AcquireLock, ClaimJob, CreateToken, Enqueue, OpenSession, RotateToken
from octostore.core.errors import Conflict, LimitExceeded
from octostore.core.limits import SWEEP_LIMIT
from octostore.core.questions import FindToken, ListTokens
from octostore.core.replies import ClaimReply
from tests.support.world import World


def digest(number: int) -> bytes:
    return bytes([number]) * 32


def create(number: int, digest_number: int) -> CreateToken:
    return CreateToken(
        token_id=f"t{number}", name="ann", digest=digest(digest_number), scopes=("read", "admin"), prefix="a/"
    )


def rotate(number: int, digest_number: int) -> RotateToken:
    return RotateToken(token_id=f"t{number}", digest=digest(digest_number))


def owners_of(world: World, *digests: int) -> list[str]:
    return [world.ask(FindToken(digest=digest(number))).token_id for number in digests]


def test_a_token_is_kept_as_it_was_made(world: World) -> None:
    made = world.do(create(1, 1))
    assert world.ask(ListTokens()).tokens == [made]
    assert world.ask(FindToken(digest=digest(1))) == made


def test_a_secret_belongs_to_one_token(world: World) -> None:
    world.batch([create(1, 1), create(2, 2)])
    for command in (create(3, 1), rotate(2, 1)):
        with pytest.raises(Conflict):
            world.do(command)
    assert owners_of(world, 1, 2) == ["t1", "t2"]
    assert len(world.log()) == 2


def test_a_refused_token_does_not_affect_the_rest_of_its_batch(world: World) -> None:
    world.do(create(1, 1))
    refused, enqueued = world.batch([create(2, 1), Enqueue(job_id="job", kind="build")])
    assert isinstance(refused, Conflict)
    assert enqueued.created


def test_a_secret_may_move_between_tokens_within_a_batch(world: World) -> None:
    world.batch([create(1, 1), create(2, 2)])
    world.batch([rotate(2, 3), rotate(1, 4), rotate(2, 1), rotate(1, 2)])
    assert owners_of(world, 1, 2) == ["t2", "t1"]


def lock(job_id: str, principal: str = "ann", **terms: Any) -> AcquireLock:
    return AcquireLock(**{"job_id": job_id, "owner": "worker", "principal": principal, "max_claims": 2, **terms})


def job(job_id: str, **terms: Any) -> ClaimJob:
    return ClaimJob(**{"job_id": job_id, "owner": "worker", "principal": "ann", "max_claims": 2, **terms})


def statuses(replies: list[Any]) -> list[Any]:
    return [reply.status if isinstance(reply, ClaimReply) else type(reply) for reply in replies]


def test_expired_claims_free_their_slots_even_after_a_mass_death(world: World) -> None:
    """More claims have expired than one write sweeps, and the caller's own expired last."""
    world.batch([lock(f"old-{n:03}", "bob", ttl=10, max_claims=None) for n in range(SWEEP_LIMIT + 50)])
    world.do(OpenSession(session_id="s", agent="ann", principal="ann", ttl=20))
    world.batch([lock("a", ttl=20), lock("b", session_id="s", ephemeral=True), job("c", ttl=20), job("d", ttl=20)])
    world.advance(20)
    replies = world.batch([lock("x"), lock("y"), lock("z"), job("u"), job("v"), job("w")])
    assert statuses(replies) == ["claimed", "claimed", LimitExceeded] * 2


def test_one_principals_own_mass_death_does_not_lock_it_out(world: World) -> None:
    limit = 3 * SWEEP_LIMIT
    world.batch([lock(f"old-{n:03}", ttl=10, max_claims=limit) for n in range(limit)])
    world.advance(10)
    assert world.do(lock("new", max_claims=limit)).status == "claimed"
