"""Claim next: who is first in line, by queue and kind, within the queue's limit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.commands import CancelJob, ClaimJob, ClaimNext, ClaimTask, Enqueue, ReleaseJob, SetQueue
from octostore.core.decide.rules import needs_of
from octostore.core.errors import InvalidInput
from octostore.core.questions import GetJob
from octostore.core.replies import ClaimReply
from octostore.core.retry import RetryPolicy
from tests.support.world import START_MS, World


def enqueue(world: World, job_id: str, **terms: Any) -> None:
    world.do(Enqueue(**{"job_id": job_id, "kind": "build", **terms}))


def claim_next(world: World, **terms: Any) -> ClaimReply:
    return world.do(ClaimNext(owner="worker", **terms))


def drain(world: World, **terms: Any) -> list[str]:
    jobs = []
    while (reply := claim_next(world, **terms)).status == "claimed":
        jobs.append(reply.job_id or "")
    return jobs


def test_lowest_priority_then_earliest_due_then_oldest(world: World) -> None:
    enqueue(world, "old")
    enqueue(world, "new")
    enqueue(world, "early", run_at=START_MS - 5_000)
    enqueue(world, "urgent", priority=1)
    enqueue(world, "whenever", priority=9, run_at=START_MS - 9_000)
    assert drain(world) == ["urgent", "early", "old", "new", "whenever"]


jobs = st.lists(
    st.tuples(st.integers(-2, 2), st.integers(-3, 3), st.sampled_from(["a", "b", "c"])), min_size=1, max_size=12
)


@given(jobs, st.sampled_from([None, ("a",), ("b", "c")]), st.integers(1, 5))
def test_jobs_come_in_sorted_order_however_claims_are_batched(
    rows: list[tuple[int, int, str]], kinds: tuple[str, ...] | None, batch: int
) -> None:
    world = World()
    for number, (priority, offset, kind) in enumerate(rows):
        enqueue(world, f"job-{number}", priority=priority, run_at=START_MS + offset * 1_000, kind=kind)
    due = [
        (priority, offset, number)
        for number, (priority, offset, kind) in enumerate(rows)
        if offset <= 0 and (kinds is None or kind in kinds)
    ]
    claimed = []
    while True:
        replies = world.batch([ClaimNext(owner="worker", kinds=kinds) for _ in range(batch)])
        claimed += [reply.job_id for reply in replies if reply.status == "claimed"]
        if any(reply.status == "empty" for reply in replies):
            break
    assert claimed == [f"job-{number}" for _, _, number in sorted(due)]


@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(-3, 3), st.sampled_from("ab"), st.sampled_from("xy"))),
    st.sampled_from([None, ("a",), ("a", "b")]),
    st.sampled_from(["", "x", "x/job-", "x/job-1"]),
    st.integers(1, 5),
)
def test_within_a_prefix_jobs_come_in_the_same_order(
    rows: list[tuple[int, int, str, str]], kinds: tuple[str, ...] | None, prefix: str, batch: int
) -> None:
    world = World()
    due = []
    for number, (priority, offset, kind, team) in enumerate(rows):
        name = f"{team}/job-{number}"
        enqueue(world, name, priority=priority, run_at=START_MS + offset * 1_000, kind=kind)
        if offset <= 0 and (kinds is None or kind in kinds) and name.startswith(prefix):
            due.append((priority, offset, number, name))
    # In between, a caller without a prefix claims from the same queue.
    claimed, by_others = [], []
    while True:
        mine = [ClaimNext(owner="worker", kinds=kinds, prefix=prefix) for _ in range(batch)]
        *replies, other = world.batch([*mine, ClaimNext(owner="other", kinds=kinds)])
        claimed += [reply.job_id for reply in replies if reply.status == "claimed"]
        by_others.append(other.job_id)
        if any(reply.status == "empty" for reply in replies):
            break
    assert claimed == [name for *_, name in sorted(due) if name not in by_others]
    assert not set(claimed) & set(by_others)


def test_a_prefix_is_the_beginning_of_the_name_and_nothing_more(world: World) -> None:
    for job_id in ("team/a", "team-b/c", "teams", "tea", "other/team/a", "Team/a"):
        enqueue(world, job_id)
    assert drain(world, prefix="team/") == ["team/a"]
    assert drain(world, prefix="team") == ["team-b/c", "teams"]
    assert claim_next(world, prefix="nobody").status == "empty"
    assert drain(world) == ["tea", "other/team/a", "Team/a"]


def test_a_prefix_of_letters_outside_ascii(world: World) -> None:
    for job_id in ("任务/1", "任", "\U00020000", "é/1", "ê/1"):
        enqueue(world, job_id)
    assert drain(world, prefix="é") == ["é/1"]
    assert drain(world, prefix="任") == ["任务/1", "任"]
    assert drain(world, prefix="\U00020000") == ["\U00020000"]


def test_within_a_prefix_a_job_of_the_same_batch_is_found(world: World) -> None:
    enqueue(world, "other/urgent", priority=0)
    replies = world.batch(
        [
            ClaimNext(owner="a", prefix="team/"),
            Enqueue(job_id="team/1", kind="build"),
            ClaimNext(owner="a", prefix="team/"),
            ClaimNext(owner="a", prefix="team/"),
        ]
    )
    assert [reply.job_id for reply in replies] == [None, "team/1", "team/1", None]


def test_within_a_prefix_jobs_of_the_same_batch_are_in_order(world: World) -> None:
    priorities = {"other": 0, "team/9": 9, "team/1": 1, "team/8": 8, "team/2": 2}
    news = [Enqueue(job_id=job_id, kind="build", priority=priority) for job_id, priority in priorities.items()]
    replies = world.batch([*news, *(ClaimNext(owner="a", prefix="team/") for _ in range(5))])
    assert [reply.job_id for reply in replies[5:]] == ["team/1", "team/2", "team/8", "team/9", None]


def test_within_a_prefix_jobs_claimed_by_name_do_not_hide_those_behind_them(world: World) -> None:
    for number in range(4):
        enqueue(world, f"team/{number}")
    replies = world.batch(
        [
            ClaimJob(job_id="team/0", owner="a"),
            CancelJob(job_id="team/1"),
            ClaimNext(owner="b"),
            ClaimNext(owner="c", prefix="team/"),
        ]
    )
    assert [reply.job_id for reply in replies[2:]] == ["team/2", "team/3"]


def test_a_request_within_a_prefix_is_repeated(world: World) -> None:
    enqueue(world, "team/1")
    enqueue(world, "team/2")
    first, again = (claim_next(world, prefix="team/", request_id="r") for _ in range(2))
    assert (again.job_id, again.lease_id, again.replayed) == ("team/1", first.lease_id, True)


def test_the_limit_of_a_queue_counts_all_its_claims_whatever_the_prefix(world: World) -> None:
    world.do(SetQueue(queue="default", max_claimed=1))
    enqueue(world, "other/1")
    enqueue(world, "team/1")
    assert claim_next(world, prefix="other/").job_id == "other/1"
    assert claim_next(world, prefix="team/").status == "empty"


@pytest.mark.parametrize("prefix", ["a b", "a%", "a\0", "e\u0301", "a" * 257, "\ud800"])
def test_a_bad_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ClaimNext(owner="worker", prefix=prefix)
    assert caught.value.field == "prefix"


def test_queues_are_separate(world: World) -> None:
    enqueue(world, "here", queue="one")
    enqueue(world, "there", queue="two")
    assert drain(world, queue="two") == ["there"]


def test_an_empty_queue_says_when_to_look_again(world: World) -> None:
    assert claim_next(world).status == "empty"
    enqueue(world, "later", run_at=START_MS + 30_000)
    reply = claim_next(world)
    assert (reply.status, reply.retry_after_ms) == ("empty", 30_000)
    world.advance(30)
    assert claim_next(world).job_id == "later"


def test_an_empty_queue_is_looked_at_again_when_a_lease_may_expire(world: World) -> None:
    enqueue(world, "job")
    claim_next(world, ttl=20)
    assert claim_next(world).retry_after_ms == 20_000


def test_a_job_enqueued_in_the_same_batch_is_found(world: World) -> None:
    enqueue(world, "usual")
    urgent = Enqueue(job_id="urgent", kind="build", priority=0)
    replies = world.batch([urgent, ClaimNext(owner="a"), ClaimJob(job_id="usual", owner="b"), ClaimNext(owner="c")])
    assert [getattr(reply, "job_id", None) for reply in replies] == ["urgent", "urgent", "usual", None]
    assert replies[3].status == "empty"


def test_jobs_claimed_by_name_do_not_hide_those_behind_them(world: World) -> None:
    for number in range(4):
        enqueue(world, f"job-{number}")
    replies = world.batch(
        [ClaimJob(job_id="job-0", owner="a"), CancelJob(job_id="job-1"), ClaimNext(owner="b"), ClaimNext(owner="c")]
    )
    assert [reply.job_id for reply in replies[2:]] == ["job-2", "job-3"]


def test_a_queue_with_a_limit_of_one_is_serial(world: World) -> None:
    world.do(SetQueue(queue="default", max_claimed=1))
    enqueue(world, "first")
    enqueue(world, "second")
    reply = claim_next(world)
    assert reply.job_id == "first"
    assert claim_next(world).status == "empty"
    assert world.do(ClaimJob(job_id="second", owner="sly")).status == "delayed", "not by name either"
    assert reply.lease_id is not None
    world.do(ReleaseJob(job_id="first", lease_id=reply.lease_id, outcome="done"))
    assert claim_next(world).job_id == "second"


def test_a_limit_counts_within_a_batch(world: World) -> None:
    for number in range(5):
        enqueue(world, f"job-{number}")
    replies = world.batch([SetQueue(queue="default", max_claimed=2), *(ClaimNext(owner="w") for _ in range(4))])
    assert [reply.status for reply in replies[1:]] == ["claimed", "claimed", "empty", "empty"]


def test_an_expired_claim_does_not_count_against_the_limit(world: World) -> None:
    world.do(SetQueue(queue="default", max_claimed=1))
    enqueue(world, "first")
    enqueue(world, "second")
    claim_next(world, ttl=10)
    world.advance(10)
    assert claim_next(world).job_id == "second"


def test_a_limit_can_be_lifted(world: World) -> None:
    world.do(SetQueue(queue="default", max_claimed=1))
    world.do(SetQueue(queue="default", max_claimed=None))
    enqueue(world, "first")
    enqueue(world, "second")
    assert drain(world) == ["first", "second"]


def test_setting_the_same_limit_again_logs_no_event(world: World) -> None:
    for _ in range(2):
        world.do(SetQueue(queue="default", max_claimed=3))
    assert world.event_types() == ["queue_limited"]


def test_the_same_request_gets_the_same_job_again(world: World) -> None:
    enqueue(world, "first")
    enqueue(world, "second")
    reply = claim_next(world, request_id="r1")
    again = claim_next(world, request_id="r1")
    assert (again.job_id, again.lease_id, again.replayed) == (reply.job_id, reply.lease_id, True)
    assert claim_next(world, request_id="r2").job_id == "second"


def test_a_request_id_counts_for_each_queue_separately(world: World) -> None:
    for job_id, queue in (("a0", "a"), ("a1", "a"), ("b0", "b")):
        enqueue(world, job_id, queue=queue)
    assert [claim_next(world, queue=queue, request_id="r").job_id for queue in ("a", "b", "a")] == ["a0", "b0", "a0"]


def test_a_request_is_repeated_for_a_job_that_is_enqueued_in_the_same_batch(world: World) -> None:
    first = world.do(ClaimJob(job_id="job", owner="ann", request_id="r1"))
    enqueue(world, "another")
    _, again = world.batch([Enqueue(job_id="job", kind="build"), ClaimNext(owner="ann", request_id="r1")])
    assert (again.job_id, again.lease_id, again.replayed) == ("job", first.lease_id, True)


def test_retry_after_counts_a_job_that_the_same_call_put_off() -> None:
    world = World(retry=RetryPolicy(base_ms=4_000, jitter=0))
    enqueue(world, "job")
    claim_next(world, ttl=10)
    world.advance(10)
    assert claim_next(world).retry_after_ms == 4_000


def test_a_full_queue_is_looked_at_again_in_a_second(world: World) -> None:
    world.do(SetQueue(queue="default", max_claimed=1))
    enqueue(world, "first")
    enqueue(world, "second")
    claim_next(world)
    task = ClaimTask(owner="worker", session_id="s", queues=("default",))
    for reply in (claim_next(world), world.do(ClaimJob(job_id="second", owner="worker")), world.do(task)):
        assert reply.retry_after_ms == 1_000, reply


def test_a_job_claimed_by_name_from_a_full_queue_says_so(world: World) -> None:
    world.do(SetQueue(queue="default", max_claimed=1))
    enqueue(world, "first")
    enqueue(world, "second")
    enqueue(world, "later", run_at=START_MS + 10_000)
    claim_next(world)
    second, later = (world.do(ClaimJob(job_id=name, owner="worker")) for name in ("second", "later"))
    assert (second.status, second.max_claimed, second.pause) == ("delayed", 1, None)
    assert (later.status, later.max_claimed, later.retry_after_ms) == ("delayed", None, 10_000)


def test_a_queue_is_looked_at_again_in_a_minute_at_the_latest(world: World) -> None:
    enqueue(world, "later", run_at=START_MS + 3_600_000)
    assert claim_next(world).retry_after_ms == 60_000
    assert claim_next(world, queue="empty").retry_after_ms == 60_000


def test_retry_after_ignores_jobs_in_other_queues() -> None:
    world = World(retry=RetryPolicy(base_ms=4_000, jitter=0))
    enqueue(world, "job")
    claim_next(world, ttl=10)
    world.advance(10)
    assert claim_next(world, queue="other").retry_after_ms == 60_000


def test_failures_before_a_job_was_enqueued_are_not_attempts_of_the_task(world: World) -> None:
    for _ in range(5):
        lease_id = world.do(ClaimJob(job_id="job", owner="ann")).lease_id or ""
        world.do(ReleaseJob(job_id="job", lease_id=lease_id, outcome="failed"))
    enqueue(world, "job", max_attempts=5)
    assert claim_next(world).attempt == 1


def test_enqueueing_twice_changes_nothing(world: World) -> None:
    enqueue(world, "job", payload=b"1")
    reply = world.do(Enqueue(job_id="job", kind="other", payload=b"2"))
    assert (reply.created, reply.kind) == (False, "build")
    assert world.ask(GetJob(job_id="job")).payload == 1
    assert world.event_types() == ["enqueued"]


def test_a_claimed_lock_is_enqueued_under_its_claim(world: World) -> None:
    held = world.do(ClaimJob(job_id="job", owner="ann", ttl=10))
    reply = world.do(Enqueue(job_id="job", kind="build", payload=b"1"))
    assert (reply.created, reply.status) == (True, "claimed")
    assert claim_next(world).status == "empty"
    assert held.lease_id is not None
    world.advance(10)
    world.advance(2)
    assert claim_next(world).job_id == "job", "it is a task now, so it is retried"


def test_a_former_lock_gets_the_place_in_line_of_its_run_at(world: World) -> None:
    world.advance(10)
    held = world.do(ClaimJob(job_id="job", owner="ann"))
    world.do(ReleaseJob(job_id="job", lease_id=held.lease_id or ""))
    enqueue(world, "first", run_at=START_MS + 5_000)
    enqueue(world, "job", run_at=START_MS)
    assert drain(world) == ["job", "first"]


def test_enqueueing_does_not_cut_a_lock_delay_short(world: World) -> None:
    for job_id, run_at in (("at-once", None), ("sooner", START_MS + 5_000), ("later", START_MS + 15_000)):
        held = world.do(ClaimJob(job_id=job_id, owner="ann", lock_delay=10))
        world.do(ReleaseJob(job_id=job_id, lease_id=held.lease_id or ""))
        enqueue(world, job_id, run_at=run_at, queue=job_id)
    assert [claim_next(world, queue=queue).retry_after_ms for queue in ("at-once", "sooner", "later")] == [
        10_000,
        10_000,
        15_000,
    ]
    world.advance(10)
    assert [claim_next(world, queue=queue).status for queue in ("at-once", "sooner", "later")] == [
        "claimed",
        "claimed",
        "empty",
    ]


def test_enqueueing_never_brings_a_done_job_back(world: World) -> None:
    held = world.do(ClaimJob(job_id="job", owner="ann"))
    assert held.lease_id is not None
    world.do(ReleaseJob(job_id="job", lease_id=held.lease_id, outcome="done"))
    reply = world.do(Enqueue(job_id="job", kind="build"))
    assert (reply.created, reply.status) == (False, "done")


def test_a_repeated_request_is_not_a_way_around_the_prefix(world: World) -> None:
    world.do(Enqueue(job_id="hidden", kind="build", payload=b'{"secret":1}'))
    first = world.do(ClaimNext(owner="ann", request_id="r", principal="ci"))
    limited = world.do(ClaimNext(owner="ann", request_id="r", principal="ci", prefix="deploy-"))
    again = world.do(ClaimNext(owner="ann", request_id="r", principal="ci"))
    assert (first.status, limited.status) == ("claimed", "empty")
    assert (again.job_id, again.replayed) == ("hidden", True)


def test_a_batch_loads_as_many_queued_jobs_as_its_commands_can_use() -> None:
    held = [ReleaseJob(job_id=f"held-{number}", lease_id="0" * 32, outcome="done") for number in range(8)]
    by_name = [ClaimJob(job_id="first", owner="a"), CancelJob(job_id="second")]
    needs = needs_of([*held, *by_name, *[ClaimNext(owner="worker") for _ in range(8)]])
    assert needs.lines["default"].count == 2 + 8
