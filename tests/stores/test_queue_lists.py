"""Which queues are listed, and how far back their events are read."""

from datetime import timedelta

import pytest

from octostore.core.commands import CancelJob, ClaimNext, Enqueue, SetQueue
from octostore.core.limits import QUEUES_SHOWN
from octostore.core.moments import to_datetime
from octostore.core.questions import ListQueues
from tests.support.world import World


def test_only_the_longest_are_listed(world: World) -> None:
    jobs = [(queue, place) for queue in range(QUEUES_SHOWN + 5) for place in range(2 if queue % 2 else 1)]
    world.batch([Enqueue(job_id=f"{q}/{p}", kind="build", queue=f"queue-{q:03}") for q, p in reversed(jobs)])
    listed = world.ask(ListQueues())
    expected = sorted({q for q, _ in jobs}, key=lambda q: (q % 2 == 0, q))[:QUEUES_SHOWN]
    assert [queue.queue for queue in listed.queues] == [f"queue-{q:03}" for q in expected]
    assert [queue.ready for queue in listed.queues] == [2 if q % 2 else 1 for q in expected]
    assert listed.more


def test_a_full_list_that_is_complete_says_so(world: World) -> None:
    world.batch([Enqueue(job_id=f"{q}", kind="build", queue=f"queue-{q}") for q in range(QUEUES_SHOWN)])
    listed = world.ask(ListQueues())
    assert (len(listed.queues), listed.more) == (QUEUES_SHOWN, False)


@pytest.mark.parametrize("status", ["queued", "claimed", "dead"])
def test_a_prefix_shows_only_the_queues_of_its_jobs(world: World, status: str) -> None:
    world.do(SetQueue(queue="limited", max_claimed=1))
    world.do(Enqueue(job_id="mine/1", kind="build", queue="shared"))
    if status == "claimed":
        world.do(ClaimNext(owner="ann", queue="shared"))
    if status == "dead":
        world.do(CancelJob(job_id="mine/1"))
    world.do(Enqueue(job_id="other/1", kind="build", queue="shared"))
    world.do(Enqueue(job_id="other/2", kind="build", queue="secret"))
    world.do(ClaimNext(owner="bob", queue="secret"))
    (queue,) = world.ask(ListQueues(prefix="mine/")).queues
    names = ("ready", "claimed", "dead")
    assert (queue.queue, [getattr(queue, name) for name in names]) == (
        "shared",
        [int(status == "queued"), int(status == "claimed"), int(status == "dead")],
    )
    assert sum(queue.rates.enqueued) == 1
    assert (queue.last_claim_at is not None) == (status == "claimed")
    assert {queue.queue for queue in world.ask(ListQueues()).queues} == {"shared", "secret", "limited"}


def test_rates_start_at_the_oldest_event_that_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octostore.stores.transaction.LOOK_BACK_EVENTS", 5)
    monkeypatch.setattr("octostore.stores.memory.LOOK_BACK_EVENTS", 5)
    begin = world.clock.now_ms
    for number in range(4):
        world.do(Enqueue(job_id=f"job-{number}", kind="build"))
        world.do(ClaimNext(owner="ann", ttl=86_400))
        world.advance(60)
    listed = world.ask(ListQueues())
    (queue,) = listed.queues
    # The last event that is not read is the third: 60 s after the first.
    assert listed.rates_since == to_datetime(begin + 60_001)
    assert queue.rates.enqueued == [0, 1, 1, 0]
    assert queue.last_claim_at == to_datetime(begin + 180_000)
    world.advance(7_200)
    later = world.ask(ListQueues())
    (queue,) = later.queues
    assert (sum(queue.rates.enqueued), len(queue.rates.enqueued)) == (0, 60)
    assert queue.last_claim_at == to_datetime(begin + 180_000), "the last claim is reported however old it is"
    assert later.counted_at - later.rates_since < timedelta(hours=1)
