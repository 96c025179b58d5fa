"""Commands in one transaction see the effects of those before them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.commands import (
    AnyCommand,
    CancelJob,
    ClaimJob,
    ClaimNext,
    ClaimTask,
    Enqueue,
    ForceReleaseJob,
    ReleaseJob,
    RequeueJob,
    SetQueue,
)
from tests.support.world import World


def enqueue(world: World, *jobs: str) -> None:
    world.batch([Enqueue(job_id=job, kind="build") for job in jobs])


TERMS: dict[str, Any] = {"owner": "worker", "request_id": "r"}
CLAIMS: list[AnyCommand] = [
    ClaimNext(**TERMS),
    ClaimNext(**TERMS, prefix="t"),
    ClaimJob(**TERMS, job_id="two"),
    ClaimTask(**TERMS, session_id="s", queues=("default",)),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=["next", "next within a prefix", "job", "task"])
def test_a_repeated_request_gets_one_job(world: World, claim: AnyCommand) -> None:
    enqueue(world, "two", "three")
    first, again = world.batch([claim, claim])
    assert (first.status, first.replayed) == ("claimed", False)
    assert (again.job_id, again.lease_id, again.replayed) == (first.job_id, first.lease_id, True)
    assert world.event_types().count("claimed") == 1


def test_the_same_request_id_from_another_principal_is_another_request(world: World) -> None:
    enqueue(world, "one", "two")
    replies = world.batch([ClaimNext(**TERMS, principal=principal) for principal in ("ann", "bob")])
    assert [reply.job_id for reply in replies] == ["one", "two"]


@pytest.mark.parametrize("prefix", ["", "o"])
def test_a_failed_job_waits_for_its_backoff(world: World, prefix: str) -> None:
    enqueue(world, "one")
    first, _, again = world.batch(
        [
            ClaimNext(owner="ann", prefix=prefix),
            ReleaseJob(job_id="one", lease_id="lease-1", outcome="failed", retry_after=60),
            ClaimNext(owner="bob", prefix=prefix),
        ]
    )
    assert (first.lease_id, again.status, again.retry_after_ms) == ("lease-1", "empty", 60_000)


@pytest.mark.parametrize("prefix", ["", "o"])
def test_a_failed_job_goes_behind_the_others(world: World, prefix: str) -> None:
    enqueue(world, "one", "other")
    world.advance(1)
    *_, again = world.batch(
        [
            ClaimNext(owner="ann", prefix=prefix),
            ReleaseJob(job_id="one", lease_id="lease-1", outcome="failed", retry_after=0),
            ClaimNext(owner="bob", prefix=prefix),
        ]
    )
    assert again.job_id == "other"


def test_a_job_that_is_not_due_yet_is_not_found(world: World) -> None:
    later = Enqueue(job_id="later", kind="build", run_at=world.clock.now_ms + 5_000)
    assert world.batch([later, ClaimNext(owner="ann")])[1].status == "empty"


names = st.sampled_from(["a", "b", "lock"])
steps: st.SearchStrategy[AnyCommand] = st.one_of(
    st.just(ClaimNext(owner="worker")),
    st.builds(ClaimTask, session_id=names, owner=st.just("worker"), queues=st.just(("default",))),
    st.builds(ClaimJob, job_id=names, owner=st.just("worker")),
    st.builds(ForceReleaseJob, job_id=names),
    st.builds(CancelJob, job_id=names),
    st.builds(RequeueJob, job_id=names),
    st.just(SetQueue(queue="default", max_claimed=1)),
    st.just(SetQueue(queue="default", max_claimed=None)),
    st.just(Enqueue(job_id="lock", kind="build")),
)


@given(st.lists(st.lists(steps, min_size=1, max_size=5), min_size=1, max_size=4))
def test_no_claim_exceeds_the_limit_of_its_queue_however_commands_are_batched(
    batches: list[list[AnyCommand]],
) -> None:
    world = World()
    enqueue(world, "a", "b", "c")
    for batch in batches:
        world.batch(batch)
    limit: int | None = None
    claimed: set[str | None] = set()
    enqueued: set[str | None] = set()
    for event in world.events():
        if event.type == "queue_limited":
            limit = event.data["max_claimed"]
        elif event.type == "enqueued":
            enqueued.add(event.job_id)
        elif event.type in {"force_released", "cancelled"}:
            claimed.discard(event.job_id)
        elif event.type == "claimed":
            claimed.add(event.job_id)
            assert event.job_id not in enqueued or limit is None or len(claimed & enqueued) <= limit
