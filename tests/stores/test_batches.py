"""A queue's limit holds within a transaction, on top of what the store counted before it."""

import pytest

from octostore.core.commands import AnyCommand, ClaimJob, ClaimNext, ClaimTask, Enqueue, ReleaseJob, SetQueue
from tests.support.world import World

CLAIMS: list[AnyCommand] = [
    ClaimNext(owner="ann"),
    ClaimJob(owner="ann", job_id="two"),
    ClaimTask(owner="ann", session_id="s", queues=("default",)),
]
claims = pytest.mark.parametrize("claim", CLAIMS, ids=["next", "job", "task"])


def enqueue(world: World, *jobs: str) -> None:
    world.batch([Enqueue(job_id=job, kind="build") for job in jobs])


@claims
def test_a_new_limit_counts_jobs_that_are_already_claimed(world: World, claim: AnyCommand) -> None:
    enqueue(world, "one", "two", "three")
    world.do(ClaimNext(owner="bob"))
    replies = world.batch([SetQueue(queue="default", max_claimed=1), claim])
    assert replies[1].status in {"empty", "delayed"}


@claims
def test_a_claimed_job_that_is_enqueued_counts_at_once(world: World, claim: AnyCommand) -> None:
    world.do(SetQueue(queue="default", max_claimed=1))
    world.do(ClaimJob(job_id="one", owner="bob"))
    enqueue(world, "two")
    replies = world.batch([Enqueue(job_id="one", kind="build"), claim])
    assert replies[1].status in {"empty", "delayed"}


def test_a_slot_that_becomes_free_goes_to_one_claim(world: World) -> None:
    world.do(SetQueue(queue="default", max_claimed=1))
    enqueue(world, "one", "two", "three")
    first = world.do(ClaimNext(owner="bob"))
    replies = world.batch(
        [
            ReleaseJob(job_id="one", lease_id=first.lease_id or "", outcome="done"),
            ClaimNext(owner="ann"),
            ClaimNext(owner="eve"),
        ]
    )
    assert [replies[1].job_id, replies[2].status] == ["two", "empty"]


def test_a_request_that_arrives_twice_gets_one_job(world: World) -> None:
    enqueue(world, "one", "two")
    claim = ClaimNext(owner="ann", request_id="r")
    first, again = world.batch([claim, claim])
    assert (again.job_id, again.lease_id, again.replayed) == ("one", first.lease_id, True)
    assert world.do(claim).job_id == "one"
