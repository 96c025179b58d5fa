"""All queues at a glance: what is in each, how long it has waited, and what happened lately."""

from datetime import UTC, datetime, timedelta

import pytest

from octostore import InvalidInput, OctoStore
from octostore.core.replies import QueueFigures
from tests.conformance.conftest import System
from tests.support.world import START_MS

NOW = datetime.fromtimestamp(START_MS / 1_000, UTC)


def nonzero(queue: QueueFigures) -> dict[str, object]:
    names = ("ready", "later", "claimed", "dead", "done", "owners", "max_claimed")
    return {name: getattr(queue, name) for name in names if getattr(queue, name)}


def test_a_store_without_queues_lists_none(store: OctoStore) -> None:
    store.claim_job("a-lock")
    listed = store.list_queues()
    assert (listed.queues, listed.more) == ([], False)
    assert (listed.counted_at, listed.counted_to, listed.bucket_seconds) == (NOW, 10_000, 60)


def test_queues_are_listed_with_what_is_in_them_longest_first(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="short-0", queue="short", run_at=NOW + timedelta(hours=1))
    for number in range(5):
        store.enqueue("build", job_id=f"long-{number}", queue="long", max_attempts=1)
    done, failed = store.claim_next("long", owner="ann"), store.claim_next("long", owner="bob")
    store.release_job(done.job_id or "", done.lease_id or "", outcome="done")
    store.release_job(failed.job_id or "", failed.lease_id or "", outcome="failed", error="broken")
    system.advance(60)
    store.claim_next("long", owner="eve")
    store.limit_queue("limited", 3)
    system.advance(60)
    listed = system.other.list_queues()
    assert [queue.queue for queue in listed.queues] == ["long", "short", "limited"]
    long, short, limited = listed.queues
    assert nonzero(long) == {"ready": 2, "claimed": 1, "dead": 1, "done": 1, "owners": ["eve"]}
    assert (long.oldest_due_at, long.available_at, long.last_claim_at) == (NOW, None, NOW + timedelta(seconds=60))
    assert nonzero(short) == {"later": 1}
    assert (short.oldest_due_at, short.available_at, short.last_claim_at) == (None, NOW + timedelta(hours=1), None)
    assert (nonzero(limited), limited.all_done) == ({"max_claimed": 3}, True)
    assert (listed.counted_at, listed.more) == (NOW + timedelta(seconds=120), False)
    assert {len(rate) for queue in listed.queues for rate in (queue.rates.done, queue.rates.enqueued)} == {60}
    assert (long.rates.enqueued[-3:], long.rates.done[-3:], long.rates.failed[-3:]) == ([5, 0, 0], [1, 0, 0], [1, 0, 0])
    assert (sum(short.rates.enqueued), sum(long.rates.enqueued)) == (1, 5)


def test_an_expired_job_is_ready_even_before_that_is_recorded(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="job", queue="ci", max_attempts=2)
    store.claim_next("ci", owner="ann", ttl=10)
    system.advance(60)
    (queue,) = store.list_queues().queues
    assert (nonzero(queue), queue.last_claim_at) == ({"ready": 1}, NOW)


def test_changing_a_queue_shows_at_once(store: OctoStore) -> None:
    assert store.list_queues().queues == []
    store.limit_queue("ci", 2)
    (queue,) = store.list_queues().queues
    assert (queue.queue, queue.max_claimed) == ("ci", 2)


def test_figures_may_be_as_old_as_the_caller_allows(system: System) -> None:
    store = system.store
    before = store.figures(max_age=60)
    store.claim_job("job")
    assert store.figures(max_age=60).seq in {before.seq, 1}  # a store always counts again, a server may not
    assert store.figures().seq == store.figures(max_age=0).seq == 1
    for refused in (-1, 61):
        with pytest.raises(InvalidInput) as failed:
            store.figures(max_age=refused)
        assert failed.value.field == "max_age"


def test_figures_say_whether_work_gets_done(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="job")
    assert (store.figures().status, store.figures().reasons) == ("ok", [])
    system.advance(300)
    figures = store.figures()
    assert (figures.status, figures.reasons) == ("degraded", ["a job has been waiting for 300 s"])
    assert (store.health().status, store.health().reasons) == (figures.status, figures.reasons)
