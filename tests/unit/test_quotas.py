"""How many open sessions and how many queued jobs a principal may have, each counted separately."""

from collections import Counter
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
    CloseSession,
    DiscardJob,
    Enqueue,
    HandOverSession,
    OpenSession,
    ReleaseJob,
    RequeueJob,
)
from octostore.core.errors import LimitExceeded
from octostore.core.model import LOCAL
from octostore.core.questions import GetJob
from octostore.core.replies import ClaimReply
from octostore.server.quotas import SampledLimit
from octostore.stores.memory import MemoryBackend
from tests.support.replay import replay
from tests.support.world import World


def job(job_id: str, principal: str = "ann", **terms: Any) -> Enqueue:
    return Enqueue(**{"job_id": job_id, "kind": "k", "principal": principal, "max_queued": 2, **terms})


def session(session_id: str, principal: str = "ann", **terms: Any) -> OpenSession:
    return OpenSession(
        **{"session_id": session_id, "agent": "a", "principal": principal, "ttl": 60, "max_sessions": 2, **terms}
    )


def are_refused(replies: list[Any]) -> list[bool]:
    return [isinstance(reply, LimitExceeded) for reply in replies]


# Jobs in queues


def test_one_job_more_than_the_limit_is_refused_and_changes_nothing(world: World) -> None:
    assert are_refused(world.batch([job("a"), job("b", queue="other"), job("c"), job("c", "bob")])) == [False] * 2 + [
        True,
        False,
    ]
    with pytest.raises(LimitExceeded, match="2 queued jobs") as caught:
        world.do(job("d"))
    assert caught.value.limit == 2
    assert len(world.log()) == 3
    assert not world.do(job("a")).created, "an existing job is not one more"


def test_a_job_that_is_claimed_is_not_queued_until_it_is_retried(world: World) -> None:
    world.batch([job("a"), job("b")])
    claim = world.do(ClaimNext(owner="w", principal="bob"))
    world.do(job("c"))
    world.do(ReleaseJob(job_id="a", lease_id=claim.lease_id or "", outcome="failed", principal="bob"))
    assert are_refused(world.batch([job("d")])) == [True], "a, b and c"
    world.do(CancelJob(job_id="b"))
    assert are_refused(world.batch([job("d")])) == [True], "a and c"
    world.do(CancelJob(job_id="c"))
    assert are_refused(world.batch([job("d"), job("e")])) == [False, True]


def test_a_job_that_is_enqueued_under_a_claim_needs_room_for_its_release(world: World) -> None:
    world.batch([job("a"), ClaimJob(job_id="held", owner="w", principal="ann")])
    assert world.do(job("held")).status == "claimed"
    world.batch([job("b"), ClaimJob(job_id="more", owner="w", principal="ann")])
    assert are_refused(world.batch([job("more")])) == [True]


def test_callers_that_need_no_token_have_no_limit(world: World) -> None:
    assert are_refused(world.batch([job(f"j{n}", LOCAL) for n in range(5)])) == [False] * 5
    assert are_refused(world.batch([job(f"k{n}", max_queued=None) for n in range(5)])) == [False] * 5
    assert are_refused(world.batch([job("l")])) == [True], "but jobs enqueued without a limit count, too"


NAMES = st.sampled_from("abc")
COMMANDS = st.one_of(
    st.builds(job, NAMES, st.sampled_from(["ann", "bob", LOCAL]), max_queued=st.none()),
    st.builds(ClaimNext, owner=st.just("w")),
    st.builds(ClaimJob, job_id=NAMES, owner=st.just("w"), again=st.booleans()),
    st.builds(CancelJob, job_id=NAMES),
    st.builds(DiscardJob, job_id=NAMES),
    st.builds(RequeueJob, job_id=NAMES),
    st.sampled_from(["released", "done", "failed", "deferred"]),
    st.integers(1, 200),
)


@given(st.lists(COMMANDS, max_size=40), st.integers(1, 5))
def test_the_count_always_matches_the_jobs_and_the_log(asked: list[Any], size: int) -> None:
    world = World()
    batch: list[AnyCommand] = []
    live: dict[str, str] = {}
    for one in asked:
        if isinstance(one, int):
            world.clock.advance(one)
        elif isinstance(one, str):
            batch += [
                ReleaseJob(job_id=job_id, lease_id=lease_id, outcome=one)  # type: ignore[arg-type]
                for job_id, lease_id in live.items()
            ]
        else:
            batch.append(one)
        if len(batch) >= size:
            replies = [reply for reply in world.batch(batch) if isinstance(reply, ClaimReply)]
            live = {r.job_id: r.lease_id for r in replies if r.job_id and r.lease_id}
            batch = []
    assert isinstance(world.backend, MemoryBackend)
    rows = world.backend.rows
    queued = Counter(job.enqueued_by for job in rows.jobs.values() if job.status == "queued")
    queued.pop(LOCAL, None)
    assert +rows.queued == queued == +Counter(replay(world.log()).queued_changes)


# Open sessions


def test_one_session_more_than_the_limit_is_refused_and_changes_nothing(world: World) -> None:
    replies = world.batch([session("s"), session("t"), session("u"), session("u-of-bob", "bob")])
    assert are_refused(replies) == [False, False, True, False]
    with pytest.raises(LimitExceeded, match="2 open sessions"):
        world.do(session("u"))
    assert are_refused(world.batch([session("v", max_sessions=None)])) == [False], "this call has no limit"


def test_only_open_sessions_count(world: World) -> None:
    first, _ = world.batch([session("s"), session("t", ttl=30)])
    world.do(CloseSession(session_id="s", lease_id=first.lease_id, principal="ann"))
    again = world.do(session("s"))
    assert are_refused(world.batch([session("u")])) == [True]
    world.clock.advance(31)
    assert are_refused(world.batch([session("u"), session("v")])) == [False, True], "t has expired"
    world.do(HandOverSession(session_id="s", lease_id=again.lease_id, to_agent="b", principal="ann"))
    assert world.do(session("s", agent="b")).resumed, "taking one over is not one more"


def test_expired_sessions_do_not_count_even_before_that_is_recorded(world: World) -> None:
    more_than_a_batch_records = 150
    world.batch([session(f"s-{n}", ttl=30, max_sessions=None) for n in range(more_than_a_batch_records)])
    world.clock.advance(31)
    assert are_refused(world.batch([session("u"), session("v"), session("w")])) == [False, False, True]


def test_claiming_a_task_needs_room_for_its_session(world: World) -> None:
    world.batch([session("s"), session("t"), Enqueue(job_id="task", kind="k")])
    ask = {"owner": "a", "queues": ("default",), "principal": "ann", "max_sessions": 2}
    with pytest.raises(LimitExceeded):
        world.do(ClaimTask(session_id="u", **ask))  # type: ignore[arg-type]
    assert world.ask(GetJob(job_id="task")).status == "queued"


# A limit that is not checked each time


class Caller:
    """Claims for one principal, in bursts: all calls of a burst are sent before the first reply arrives."""

    def __init__(self, limit: int, held: int = 0) -> None:
        self.spaced = SampledLimit(limit)
        self.held = held
        self.checked = 0

    def ask(self, at_once: int, how: str = "new") -> None:
        burst = [
            ClaimJob(job_id="j", owner="w", principal="ann", max_claims=self.spaced.limit_for_next("ann"))
            for _ in range(at_once)
        ]
        for command in burst:
            self.checked += command.max_claims is not None
            if how != "new":
                reply = ClaimReply("held", "j") if how == "held" else ClaimReply("claimed", "j", replayed=True)
                self.spaced.on_reply(command, reply)
            elif command.max_claims is not None and self.held >= command.max_claims:
                self.spaced.on_refused("ann")
            else:
                self.held += 1
                self.spaced.on_reply(command, ClaimReply("claimed", "j"))


ASKED = st.tuples(st.integers(1, 300), st.sampled_from(["new", "new", "held", "replayed"]))


@given(st.integers(1, 5_000), st.integers(0, 5_000), st.lists(ASKED, max_size=20))
def test_a_high_limit_is_exceeded_by_at_most_one_percent(limit: int, held: int, asked: list[tuple[int, str]]) -> None:
    caller = Caller(limit, min(held, limit))
    for at_once, how in asked:
        caller.ask(at_once, how)
    assert caller.held <= limit + limit // 100
    caller.ask(2 * limit)
    assert limit <= caller.held <= limit + limit // 100
    caller.held = limit - 1  # some are released
    caller.ask(200)
    assert limit <= caller.held <= limit + limit // 100


def test_a_low_limit_is_checked_each_time_and_a_high_one_rarely() -> None:
    low, high = Caller(99), Caller(10_000)
    for _ in range(303):
        low.ask(1)
        high.ask(1)
        high.ask(1, "held")  # which uses no room
    assert low.checked == 303
    assert high.checked <= 6
    assert high.spaced.limit_for_next("bob") == 10_000
