"""Tokens and the limits on claims, where what is stored matters and not only what is decided."""

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


def whose(world: World, *digests: int) -> list[str]:
    return [world.ask(FindToken(digest=digest(number))).token_id for number in digests]


def test_a_token_is_kept_as_it_was_made(world: World) -> None:
    made = world.do(create(1, 1))
    assert world.ask(ListTokens()).tokens == [made]
    assert world.ask(FindToken(digest=digest(1))) == made


def test_a_secret_is_that_of_one_token(world: World) -> None:
    world.batch([create(1, 1), create(2, 2)])
    for command in (create(3, 1), rotate(2, 1)):
        with pytest.raises(Conflict):
            world.do(command)
    assert whose(world, 1, 2) == ["t1", "t2"]
    assert len(world.log()) == 2


def test_a_refused_token_does_not_harm_what_is_written_with_it(world: World) -> None:
    world.do(create(1, 1))
    refused, enqueued = world.batch([create(2, 1), Enqueue(job_id="job", kind="build")])
    assert isinstance(refused, Conflict)
    assert enqueued.created


def test_within_a_batch_a_secret_goes_from_one_token_to_another(world: World) -> None:
    world.batch([create(1, 1), create(2, 2)])
    world.batch([rotate(2, 3), rotate(1, 4), rotate(2, 1), rotate(1, 2)])
    assert whose(world, 1, 2) == ["t2", "t1"]


def lock(job_id: str, principal: str = "ann", **terms: Any) -> AcquireLock:
    return AcquireLock(**{"job_id": job_id, "owner": "worker", "principal": principal, "max_claims": 2, **terms})


def job(job_id: str, **terms: Any) -> ClaimJob:
    return ClaimJob(**{"job_id": job_id, "owner": "worker", "principal": "ann", "max_claims": 2, **terms})


def told(answers: list[Any]) -> list[Any]:
    return [answer.status if isinstance(answer, ClaimReply) else type(answer) for answer in answers]


def test_what_has_expired_frees_its_place_also_after_a_mass_death(world: World) -> None:
    """More has run out than one write sweeps, and the claims of the one who asks were the last of it."""
    world.batch([lock(f"old-{n:03}", "bob", ttl=10, max_claims=None) for n in range(SWEEP_LIMIT + 50)])
    world.do(OpenSession(session_id="s", agent="ann", principal="ann", ttl=20))
    world.batch([lock("a", ttl=20), lock("b", session_id="s", ephemeral=True), job("c", ttl=20), job("d", ttl=20)])
    world.advance(20)
    answers = world.batch([lock("x"), lock("y"), lock("z"), job("u"), job("v"), job("w")])
    assert told(answers) == ["claimed", "claimed", LimitExceeded] * 2


def test_one_principals_own_mass_death_does_not_lock_it_out(world: World) -> None:
    limit = 3 * SWEEP_LIMIT
    world.batch([lock(f"old-{n:03}", ttl=10, max_claims=limit) for n in range(limit)])
    world.advance(10)
    assert world.do(lock("new", max_claims=limit)).status == "claimed"
