"""How many sessions a principal may have open, and how many jobs queued: counted as they stand, each by themselves."""

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


def are_refused(answers: list[Any]) -> list[bool]:
    return [isinstance(answer, LimitExceeded) for answer in answers]


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
    assert not world.do(job("a")).created, "what is there already is not one more"


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


def test_a_job_that_is_enqueued_under_a_claim_needs_room_for_when_it_is_released(world: World) -> None:
    world.batch([job("a"), ClaimJob(job_id="held", owner="w", principal="ann")])
    assert world.do(job("held")).status == "claimed"
    world.batch([job("b"), ClaimJob(job_id="more", owner="w", principal="ann")])
    assert are_refused(world.batch([job("more")])) == [True]


def test_those_who_need_no_token_have_no_limit(world: World) -> None:
    assert are_refused(world.batch([job(f"j{n}", LOCAL) for n in range(5)])) == [False] * 5
    assert are_refused(world.batch([job(f"k{n}", max_queued=None) for n in range(5)])) == [False] * 5
    assert are_refused(world.batch([job("l")])) == [True], "but they count for those who have"


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
def test_the_number_is_always_that_of_the_jobs_and_that_of_the_log(asked: list[Any], size: int) -> None:
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
    answers = world.batch([session("s"), session("t"), session("u"), session("u-of-bob", "bob")])
    assert are_refused(answers) == [False, False, True, False]
    with pytest.raises(LimitExceeded, match="2 open sessions"):
        world.do(session("u"))
    assert are_refused(world.batch([session("v", max_sessions=None)])) == [False], "without a limit there is none"


def test_only_sessions_that_are_open_count(world: World) -> None:
    first, _ = world.batch([session("s"), session("t", ttl=30)])
    world.do(CloseSession(session_id="s", lease_id=first.lease_id, principal="ann"))
    again = world.do(session("s"))
    assert are_refused(world.batch([session("u")])) == [True]
    world.clock.advance(31)
    assert are_refused(world.batch([session("u"), session("v")])) == [False, True], "t has expired"
    world.do(HandOverSession(session_id="s", lease_id=again.lease_id, to_agent="b", principal="ann"))
    assert world.do(session("s", agent="b")).resumed, "whoever takes one over has not one more"


def test_sessions_that_have_expired_do_not_count_before_that_is_written_down(world: World) -> None:
    more_than_a_batch_tidies_up = 150
    world.batch([session(f"s-{n}", ttl=30, max_sessions=None) for n in range(more_than_a_batch_tidies_up)])
    world.clock.advance(31)
    assert are_refused(world.batch([session("u"), session("v"), session("w")])) == [False, False, True]


def test_a_task_that_comes_with_a_session_needs_room_for_it(world: World) -> None:
    world.batch([session("s"), session("t"), Enqueue(job_id="task", kind="k")])
    ask = {"owner": "a", "queues": ("default",), "principal": "ann", "max_sessions": 2}
    with pytest.raises(LimitExceeded):
        world.do(ClaimTask(session_id="u", **ask))  # type: ignore[arg-type]
    assert world.ask(GetJob(job_id="task")).status == "queued"


# A limit that is not checked each time


class Asking:
    """Asks for claims of one principal, so many at once that all are on their way before the first is answered."""

    def __init__(self, limit: int, held: int = 0) -> None:
        self.spaced = SampledLimit(limit)
        self.held = held
        self.checked = 0

    def ask(self, at_once: int, how: str = "new") -> None:
        on_their_way = [
            ClaimJob(job_id="j", owner="w", principal="ann", max_claims=self.spaced.limit_for_next("ann"))
            for _ in range(at_once)
        ]
        for command in on_their_way:
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
def test_a_high_limit_is_exceeded_by_a_hundredth_at_most(limit: int, held: int, asked: list[tuple[int, str]]) -> None:
    asking = Asking(limit, min(held, limit))
    for at_once, how in asked:
        asking.ask(at_once, how)
    assert asking.held <= limit + limit // 100
    asking.ask(2 * limit)
    assert limit <= asking.held <= limit + limit // 100
    asking.held = limit - 1  # some are given back
    asking.ask(200)
    assert limit <= asking.held <= limit + limit // 100


def test_a_low_limit_is_checked_each_time_and_a_high_one_seldom() -> None:
    low, high = Asking(99), Asking(10_000)
    for _ in range(303):
        low.ask(1)
        high.ask(1)
        high.ask(1, "held")  # and takes no room
    assert low.checked == 303
    assert high.checked <= 6
    assert high.spaced.limit_for_next("bob") == 10_000
