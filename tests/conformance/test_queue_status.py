"""What an empty queue says: whether anything may still come, and from whom."""

from datetime import UTC, datetime, timedelta

import pytest

from octostore import InvalidInput, OctoStore
from octostore.core.replies import ClaimReply, QueueStatus
from tests.conformance.conftest import System
from tests.support.world import START_MS

NOW = datetime.fromtimestamp(START_MS / 1_000, UTC)


def lease(reply: ClaimReply) -> str:
    assert reply.lease_id is not None, reply
    return reply.lease_id


def counted(status: QueueStatus | None) -> dict[str, int]:
    assert status is not None
    names = ("ready", "later", "claimed", "dead", "done")
    return {name: getattr(status, name) for name in names if getattr(status, name)}


def test_a_queue_that_never_had_a_job_is_all_done(store: OctoStore) -> None:
    reply = store.claim_next("nothing")
    assert (reply.status, reply.all_done, reply.available_at) == ("empty", True, None)
    assert counted(reply.queue_status) == counted(store.queue_status("nothing")) == {}


def test_an_empty_reply_says_what_else_there_is(system: System) -> None:
    store = system.store
    for number, owner in enumerate(("ann", "bob", "ann")):
        store.enqueue("build", job_id=f"held-{number}", queue="ci")
        store.claim_next("ci", owner=owner)
    store.enqueue("build", job_id="tomorrow", queue="ci", priority=1, run_at=NOW + timedelta(days=1))
    store.enqueue("build", job_id="soon", queue="ci", run_at=NOW + timedelta(minutes=1))
    store.enqueue("build", job_id="given-up", queue="ci")
    store.cancel("given-up")
    store.enqueue("build", job_id="elsewhere", queue="other")
    reply = system.other.claim_next("ci")
    assert (reply.status, reply.all_done, reply.available_at) == ("empty", False, NOW + timedelta(minutes=1))
    status = reply.queue_status
    assert status is not None
    assert counted(status) == {"later": 2, "claimed": 3, "dead": 1}
    assert (status.queue, status.owners, status.counted_to) == ("ci", ["ann", "bob"], 100)
    asked = store.queue_status("ci")
    assert (counted(asked), asked.owners, asked.all_done) == (counted(status), status.owners, False)
    assert (asked.available_at, asked.counted_to) == (NOW + timedelta(minutes=1), 10_000)


def test_available_at_is_set_only_if_a_job_is_due_then(system: System) -> None:
    """Not to when a lease would expire, because a heartbeat may extend it."""
    store = system.store
    store.enqueue("build", job_id="job")
    store.claim_next(ttl=10)
    reply = store.claim_next()
    assert (reply.all_done, reply.available_at, reply.retry_after_ms) == (False, None, 10_000)


def test_all_is_done_when_the_last_job_is_settled(system: System) -> None:
    store = system.store
    for name in ("good", "bad", "unwanted"):
        store.enqueue("build", job_id=name, max_attempts=1)
    leases = {str(reply.job_id): lease(reply) for reply in (store.claim_next() for _ in range(3))}
    store.release_job("good", leases["good"], outcome="done")
    store.release_job("bad", leases["bad"], outcome="failed", error="broken")
    assert store.claim_next().all_done is False
    store.cancel("unwanted")
    store.discard("unwanted")
    reply = store.claim_next()
    assert (reply.all_done, counted(reply.queue_status)) == (True, {"dead": 1, "done": 1})
    store.requeue("bad")
    assert (store.queue_status("default").all_done, store.queue_status("default").ready) == (False, 1)


def test_a_job_that_is_lost_or_waits_for_a_retry_may_still_come(system: System) -> None:
    store = system.store
    store.enqueue("build", job_id="job", max_attempts=2)
    store.claim_next(ttl=10)
    system.advance(10)
    status = store.queue_status("default")
    assert (counted(status), status.all_done) == ({"later": 1}, False), "that is not recorded yet"
    system.advance(60)
    assert counted(store.queue_status("default")) == {"ready": 1}
    store.release_job("job", lease(store.claim_next()), outcome="failed")
    assert counted(store.claim_next().queue_status) == {"dead": 1}


def test_other_kinds_do_not_count(store: OctoStore) -> None:
    """Except settled jobs, which nobody can claim."""
    store.enqueue("test", job_id="held")
    store.claim_next(owner="ann")
    store.enqueue("lint", job_id="later", run_at=NOW + timedelta(hours=1))
    store.enqueue("build", job_id="ready")
    store.enqueue("docs", job_id="dead")
    store.cancel("dead")
    of_lint = store.claim_next(kinds=["lint"])
    assert (of_lint.all_done, of_lint.available_at) == (False, NOW + timedelta(hours=1))
    assert counted(of_lint.queue_status) == {"later": 1, "dead": 1}
    both = store.claim_next(kinds=["lint", "test"])
    assert counted(both.queue_status) == {"later": 1, "claimed": 1, "dead": 1}
    docs = store.claim_next(kinds=["docs"])
    assert (docs.all_done, docs.available_at, counted(docs.queue_status)) == (True, None, {"dead": 1})


def test_a_full_queue_has_jobs_that_are_ready(store: OctoStore) -> None:
    store.limit_queue("deploys", 1)
    for number in range(3):
        store.enqueue("deploy", job_id=f"deploy-{number}", queue="deploys")
    store.claim_next("deploys")
    reply = store.claim_next("deploys")
    assert reply.queue_status is not None
    assert (reply.status, reply.all_done, reply.queue_status.max_claimed) == ("empty", False, 1)
    assert counted(reply.queue_status) == {"ready": 2, "claimed": 1}


def test_in_a_batch_each_reply_reflects_the_commands_before_it(store: OctoStore) -> None:
    store.enqueue("build", job_id="only", queue="ci")
    tomorrow = (NOW + timedelta(days=1)).isoformat()
    claim = {"command": "claim_next", "queue": "ci", "owner": "ann"}
    later = {"command": "enqueue", "kind": "build", "job_id": "later", "queue": "ci", "run_at": tomorrow}
    replies = store.batch([claim, claim, later, claim, {"command": "cancel_job", "job_id": "later"}, claim])
    held, waiting, dead = (counted(replies[number].queue_status) for number in (1, 3, 5))
    assert (held, waiting, dead) == ({"claimed": 1}, {"later": 1, "claimed": 1}, {"claimed": 1, "dead": 1})
    assert [replies[number].available_at for number in (1, 3, 5)] == [None, NOW + timedelta(days=1), None]


def test_an_empty_reply_for_several_queues_adds_them_up(store: OctoStore) -> None:
    store.enqueue("build", job_id="a", queue="one")
    store.claim_next("one", owner="ann")
    store.enqueue("build", job_id="b", queue="two", run_at=NOW + timedelta(days=1))
    reply = store.claim_task("session", "bob", queues=["one", "two"])
    assert (reply.status, reply.queue, reply.all_done) == ("empty", "one", False)
    assert counted(reply.queue_status) == {"later": 1, "claimed": 1}
    assert store.claim_task("session", "bob", queues=["three", "four"]).all_done is True


def test_a_wait_until_done_does_not_begin_if_all_is_done(store: OctoStore) -> None:
    assert store.claim_next(wait=600, until_done=True).all_done is True


def test_a_queue_needs_a_name(store: OctoStore) -> None:
    with pytest.raises(InvalidInput):
        store.queue_status("not a queue")
