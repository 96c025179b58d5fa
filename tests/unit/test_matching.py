"""What operators do to all dead jobs that match, a batch at a time."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from octostore.core.commands import (
    CancelJob,
    ClaimNext,
    DiscardJob,
    DiscardMatching,
    Enqueue,
    MatchingCommand,
    RequeueJob,
    RequeueMatching,
)
from octostore.core.errors import InvalidInput
from octostore.core.limits import MATCHING_MAX, SWEEP_LIMIT
from octostore.core.questions import ListJobs
from octostore.core.replies import ChangedReply
from tests.support.world import World

ALL = RequeueMatching(reason="the disk was full", limit=2)


def enqueue(world: World, *names: str, **terms: Any) -> None:
    world.batch([Enqueue(job_id=name, **{"kind": "build", **terms}) for name in names])


def kill(world: World, *names: str, **terms: Any) -> None:
    enqueue(world, *names, **terms)
    world.batch([CancelJob(job_id=name) for name in names])


def dead(world: World) -> list[str]:
    return [job.job_id for job in world.ask(ListJobs(status="dead", limit=1_000)).jobs]


def changed(world: World, event_type: str = "requeued") -> list[str | None]:
    return [entry.job_id for entry in world.log() if entry.type == event_type]


def batches(world: World, command: MatchingCommand) -> Iterator[ChangedReply]:
    while True:
        reply = world.do(command)
        yield reply
        if reply.after is None:
            return
        command = replace(command, after=reply.after)


def test_a_batch_has_the_first_jobs_by_name_and_says_where_the_next_begins(world: World) -> None:
    kill(world, "c", "a", "e", "b", "d")
    assert [(reply.changed, reply.after) for reply in batches(world, ALL)] == [(2, "b"), (2, "d"), (1, None)]
    assert changed(world) == ["a", "b", "c", "d", "e"]


def test_a_batch_that_fits_all_jobs_says_it_is_the_last(world: World) -> None:
    kill(world, "a", "b")
    assert world.do(ALL) == ChangedReply(changed=2, after=None)
    assert world.do(ALL) == ChangedReply(changed=0, after=None)


def test_only_dead_jobs_are_changed(world: World) -> None:
    enqueue(world, "queued", "claimed")
    world.do(ClaimNext(owner="ann", kinds=("build",)))
    seq = len(world.log())
    for command in (ALL, DiscardMatching(reason="gone")):
        assert world.do(command).changed == 0
    assert len(world.log()) == seq


@pytest.mark.parametrize(
    ("terms", "matching"),
    [
        ({"prefix": "a/"}, ["a/1", "a/2"]),
        ({"queue": "ci"}, ["a/2", "b/2"]),
        ({"kind": "test"}, ["b/1"]),
        ({"queue": "ci", "prefix": "b/"}, ["b/2"]),
        ({"queue": "ci", "kind": "test"}, []),
        ({"after": "a/2"}, ["b/1", "b/2"]),
    ],
)
def test_all_conditions_must_hold(world: World, terms: dict[str, Any], matching: list[str]) -> None:
    kill(world, "a/1")
    kill(world, "a/2", "b/2", queue="ci")
    kill(world, "b/1", kind="test")
    assert world.do(replace(ALL, **terms)).changed == len(matching)
    assert changed(world) == matching


def test_each_job_changes_as_with_a_single_call(world: World) -> None:
    """The same rule decides the reason, the actor, the attempts and what is left of the job."""
    enqueue(world, "a", max_attempts=1, payload=b"1")
    world.do(ClaimNext(owner="ann", ttl=5))
    world.advance(5)
    world.do(replace(ALL, principal="root", keep_attempts=True))
    (job,) = world.ask(ListJobs()).jobs
    assert (job.status, job.attempts, job.last_outcome) == ("queued", 1, "expired")
    world.do(CancelJob(job_id="a"))
    world.do(DiscardMatching(reason="gone", principal="root"))
    (job,) = world.ask(ListJobs()).jobs
    assert (job.status, job.queue, job.last_outcome, job.error) == ("free", None, "discarded", "gone")
    reasons = [(event.type, event.actor, event.data["reason"]) for event in world.events() if "reason" in event.data]
    assert reasons == [("requeued", "root", "the disk was full"), ("discarded", "root", "gone")]


def test_a_job_that_dies_again_between_batches_is_not_changed_twice(world: World) -> None:
    kill(world, "a", "b", "c")
    for _ in batches(world, replace(ALL, limit=1)):
        world.batch([CancelJob(job_id=name) for name in ("a", "b", "c")])
    assert changed(world) == ["a", "b", "c"]
    assert dead(world) == ["a", "b", "c"]


def test_jobs_that_other_commands_change_in_the_same_transaction_do_not_use_up_the_limit(world: World) -> None:
    kill(world, "a", "b", "c", "d", "e")
    *_, one, other = world.batch([RequeueJob(job_id="a"), DiscardJob(job_id="b"), replace(ALL, limit=1), ALL])
    assert (one, other) == (ChangedReply(changed=1, after="c"), ChangedReply(changed=2, after=None))
    assert changed(world) == ["a", "c", "d", "e"]


def test_jobs_that_another_matching_command_changes_do_not_use_up_the_limit(world: World) -> None:
    kill(world, "a", "b", "c", "d")
    one, other = world.batch([ALL, DiscardMatching(reason="gone", queue="default", limit=1)])
    assert (one, other) == (ChangedReply(changed=2, after="b"), ChangedReply(changed=1, after="c"))


def test_a_job_that_dies_in_the_same_transaction_matches(world: World) -> None:
    kill(world, "a", "c")
    enqueue(world, "b")
    assert world.batch([CancelJob(job_id="b"), ALL])[1] == ChangedReply(changed=2, after="b")
    assert changed(world) == ["a", "b"]


def test_a_requeued_job_can_be_claimed_in_the_same_transaction(world: World) -> None:
    kill(world, "a", "b", payload=b'"do it"')
    _, claim, other, none = world.batch([ALL, *[ClaimNext(owner="ann")] * 3])
    assert (claim.job_id, claim.payload, other.job_id, none.status) == ("a", "do it", "b", "empty")


def test_jobs_whose_last_attempt_expired_match(world: World) -> None:
    """Even if there are more of them than one transaction records."""
    names = [f"job-{number:03}" for number in range(2 * SWEEP_LIMIT + 50)]
    enqueue(world, *names, max_attempts=1)
    world.batch([ClaimNext(owner="ann", ttl=5) for _ in names])
    world.advance(5)
    steps = list(batches(world, replace(ALL, limit=MATCHING_MAX)))
    assert sum(step.changed for step in steps) == len(names)
    assert changed(world) == names


def test_the_search_for_a_rare_kind_is_bounded(world: World) -> None:
    names = [f"job-{number:04}" for number in range(2 * MATCHING_MAX)]
    kill(world, *names)
    kill(world, "job-0700x", "job-0700y", kind="rare")
    steps = list(batches(world, replace(ALL, kind="rare", limit=1)))
    assert [(step.changed, step.after) for step in steps] == [
        (0, names[MATCHING_MAX - 1]),
        (1, "job-0700x"),
        (1, None),
    ]


@pytest.mark.parametrize(
    ("field", "terms"),
    [
        ("reason", {"reason": ""}),
        ("reason", {"reason": "two\nlines"}),
        ("limit", {"limit": 0}),
        ("limit", {"limit": MATCHING_MAX + 1}),
        ("after", {"after": "not a name"}),
        ("prefix", {"prefix": "!"}),
        ("queue", {"queue": "a/b"}),
    ],
)
def test_bad_input_names_the_field(field: str, terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        DiscardMatching(**{"reason": "why", **terms})
    assert caught.value.field == field


NAMES = [f"{letter}{number}" for letter in "ab" for number in range(5)]


@settings(deadline=None, max_examples=60)
@given(
    jobs=st.dictionaries(
        st.sampled_from(NAMES), st.tuples(st.sampled_from(["x", "y"]), st.sampled_from(["k", "l"]), st.booleans())
    ),
    command=st.builds(
        RequeueMatching,
        reason=st.just("why"),
        prefix=st.sampled_from(["", "a", "b"]),
        queue=st.sampled_from([None, "x"]),
        kind=st.sampled_from([None, "k"]),
        limit=st.integers(1, 3),
    ),
)
def test_over_all_batches_each_matching_job_is_changed_once(
    jobs: dict[str, tuple[str, str, bool]], command: RequeueMatching
) -> None:
    world = World()
    for name, (queue, kind, is_dead) in jobs.items():
        (kill if is_dead else enqueue)(world, name, queue=queue, kind=kind)
    steps = list(batches(world, command))
    assert all(step.changed == command.limit for step in steps[:-1])
    assert changed(world) == [
        name
        for name, (queue, kind, is_dead) in sorted(jobs.items())
        if is_dead
        and name.startswith(command.prefix)
        and command.queue in {None, queue}
        and command.kind in {None, kind}
    ]
