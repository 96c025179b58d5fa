"""A paused queue hands out no jobs: claimed ones go on, and all others wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.commands import (
    AcquireLock,
    AnyCommand,
    ClaimJob,
    ClaimNext,
    ClaimTask,
    Enqueue,
    HeartbeatJob,
    ReleaseJob,
    SetQueue,
)
from octostore.core.errors import InvalidInput
from octostore.core.moments import to_datetime
from octostore.core.questions import GetQueue
from octostore.core.queue_words import queue_in_words
from octostore.core.replies import ClaimReply
from tests.support.world import World

PAUSE = SetQueue(queue="default", paused=True, reason="deploying", principal="ops")
RESUME = SetQueue(queue="default", paused=False)


@pytest.fixture
def world() -> World:
    world = World()
    world.batch([Enqueue(job_id=name, kind="build") for name in ("a", "b", "c")])
    return world


def test_no_job_is_handed_out_and_the_reply_says_why(world: World) -> None:
    paused = world.do(PAUSE)
    assert (paused.max_claimed, paused.paused) == (None, True)
    reply = world.do(ClaimNext(owner="ann"))
    status = reply.queue_status
    assert (reply.status, reply.all_done, reply.retry_after_ms) == ("empty", False, 60_000)
    assert status is not None
    assert status.pause is not None
    assert (status.paused, status.ready) == (True, 3)
    assert (status.pause.at, status.pause.by, status.pause.reason) == (
        to_datetime(world.clock.now_ms),
        "ops",
        "deploying",
    )
    assert queue_in_words(status) == "queue default is paused by ops (deploying): 3 ready"
    assert world.do(ClaimTask(session_id="s", owner="ann", queues=("default",))).status == "empty"


@pytest.mark.parametrize("kind", [ClaimJob, AcquireLock])
def test_no_job_is_claimed_by_name_either(world: World, kind: type[ClaimJob | AcquireLock]) -> None:
    world.do(PAUSE)
    reply = world.do(kind(job_id="b", owner="ann"))
    assert (reply.status, reply.retry_after_ms, reply.pause and reply.pause.by) == ("delayed", 1_000, "ops")
    assert world.do(kind(job_id="not-in-a-queue", owner="ann")).status == "claimed"


def test_claimed_jobs_go_on(world: World) -> None:
    reply = world.do(ClaimNext(owner="ann", request_id="r"))
    world.do(PAUSE)
    job_id, lease_id = reply.job_id or "", reply.lease_id or ""
    world.do(HeartbeatJob(job_id=job_id, lease_id=lease_id))
    again = world.do(ClaimNext(owner="ann", request_id="r"))
    assert (again.status, again.replayed) == ("claimed", True), "the same call gets the same reply"
    assert world.do(ReleaseJob(job_id=job_id, lease_id=lease_id, outcome="done")).status == "done"


def test_jobs_enqueued_failed_or_lost_during_a_pause_wait(world: World) -> None:
    failed, lost = world.do(ClaimNext(owner="ann")), world.do(ClaimNext(owner="bob", ttl=10))
    world.do(PAUSE)
    world.do(Enqueue(job_id="d", kind="build"))
    world.do(ReleaseJob(job_id=failed.job_id or "", lease_id=failed.lease_id or "", outcome="failed", retry_after=0))
    world.advance(10)
    assert world.do(ClaimNext(owner="eve")).status == "empty"
    world.do(RESUME)
    names = {world.do(ClaimNext(owner="eve")).job_id for _ in range(3)}
    assert names == {"c", "d", failed.job_id}
    world.advance(3_600)
    assert world.do(ClaimNext(owner="eve")).job_id == lost.job_id


def test_a_paused_queue_can_be_all_done() -> None:
    world = World()
    world.do(PAUSE)
    reply = world.do(ClaimNext(owner="ann"))
    assert (reply.all_done, reply.queue_status is not None and reply.queue_status.paused) == (True, True)
    assert reply.queue_status is not None
    assert queue_in_words(reply.queue_status).endswith("; it is paused by ops (deploying)")


def test_other_queues_go_on(world: World) -> None:
    world.do(Enqueue(job_id="other", kind="build", queue="other"))
    world.do(PAUSE)
    assert world.do(ClaimTask(session_id="s", owner="ann", queues=("default", "other"))).job_id == "other"
    nothing = world.do(ClaimTask(session_id="t", owner="ann", queues=("other", "default")))
    assert nothing.queue_status is not None
    assert (nothing.queue_status.paused, nothing.queue_status.ready) == (True, 3)


def test_a_pause_keeps_the_limit_and_a_new_limit_keeps_the_pause(world: World) -> None:
    world.do(SetQueue(queue="default", max_claimed=1))
    assert world.do(PAUSE).max_claimed == 1
    assert world.do(SetQueue(queue="default", max_claimed=2)).paused
    assert world.do(RESUME).max_claimed == 2
    assert [world.do(ClaimNext(owner="ann")).status for _ in range(3)] == ["claimed", "claimed", "empty"]


def test_a_call_that_changes_nothing_logs_no_event_and_keeps_the_reason(world: World) -> None:
    first = len(world.log())
    for command in (PAUSE, SetQueue(queue="default", paused=True, reason="another"), RESUME, RESUME):
        reply = world.do(command)
        assert reply.pause is None or reply.pause.reason == "deploying"
    events = world.log()[first:]
    assert [(entry.type, entry.actor, entry.queue) for entry in events] == [
        ("queue_limited", "ops", "default"),
        ("queue_limited", "local", "default"),
    ]
    assert events[0].details == b'{"max_claimed":null,"paused":true,"reason":"deploying"}'
    assert world.ask(GetQueue(queue="default")).pause is None


def test_there_must_be_something_to_change() -> None:
    with pytest.raises(InvalidInput, match="nothing to change"):
        SetQueue(queue="default")
    with pytest.raises(InvalidInput, match="paused must be true or false, not str"):
        SetQueue(queue="default", paused="yes")  # type: ignore[arg-type]


settings = st.builds(SetQueue, queue=st.just("default"), paused=st.booleans())
limits = st.builds(SetQueue, queue=st.just("default"), max_claimed=st.sampled_from([None, 1, 2]))
names = st.sampled_from(["a", "b", "c", "d"])
steps: st.SearchStrategy[AnyCommand] = st.one_of(
    settings,
    limits,
    st.builds(Enqueue, job_id=names, kind=st.just("build")),
    st.builds(ClaimNext, owner=st.just("ann")),
    st.builds(ClaimJob, owner=st.just("bob"), job_id=names),
    st.builds(ClaimTask, owner=st.just("eve"), session_id=names, queues=st.just(("default",))),
)


@given(st.lists(steps, max_size=25), st.booleans())
def test_whatever_happens_nobody_gets_a_job_of_a_paused_queue(taken: list[AnyCommand], in_one: bool) -> None:
    world = World()
    commands = [*(Enqueue(job_id=name, kind="build") for name in ("a", "b", "c")), *taken]
    replies = world.batch(commands) if in_one else [world.do(command) for command in commands]
    is_paused = False
    for command, reply in zip(commands, replies, strict=True):
        if isinstance(command, SetQueue) and command.paused is not None:
            is_paused = command.paused
        if isinstance(reply, ClaimReply) and reply.status == "claimed":
            assert not is_paused or reply.queue is None
