"""The room where claims wait, with every race in the test's hands: who goes when, what stalls, what fails."""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import pytest

from octostore.core.commands import (
    ClaimJob,
    ClaimNext,
    ClaimTask,
    CreateToken,
    Enqueue,
    HandOverSession,
    HeartbeatJob,
    OpenSession,
    Probe,
    ReleaseJob,
    ReleaseTask,
    RevokeToken,
)
from octostore.core.errors import Unreachable
from octostore.core.permit import Permit, TokenOver
from octostore.core.questions import GetJob, GetSession
from octostore.core.replies import ClaimReply, JobView
from octostore.server.http import ClientDisconnected
from octostore.server.waiting_claims import POSITION_KEPT_SECONDS, ClaimCommand
from tests.support.waiting_room import Client, Room, run_in_room

Test = Callable[[Room], Awaitable[None]]


def in_room(test: Test) -> Callable[[], None]:
    def run() -> None:
        run_in_room(test)

    run.__name__ = test.__name__
    return run


def claim(owner: str, job_id: str = "job", **terms: str) -> ClaimJob:
    return ClaimJob(job_id=job_id, owner=owner, ttl=600, **terms)  # type: ignore[arg-type]


def take(owner: str, kinds: tuple[str, ...] | None = None, prefix: str = "", queue: str = "ci") -> ClaimNext:
    return ClaimNext(owner=owner, queue=queue, kinds=kinds, prefix=prefix, ttl=600)


async def release(room: Room, reply: ClaimReply) -> None:
    await room.do(ReleaseJob(job_id=reply.job_id or "", lease_id=reply.lease_id or ""))


async def the_job(room: Room, job_id: str = "job") -> JobView:
    await room.settled()
    return await room.store.ask(GetJob(job_id=job_id))


async def is_gone(client: Client) -> None:
    with pytest.raises(ClientDisconnected):
        await client.answer


def served(*clients: Client) -> list[str | None]:
    """The owners among them whose claim has been answered."""
    return [client.answer.result().owner for client in clients if client.answer.done()]


# Tokens that are revoked


TOKEN = CreateToken(token_id="t", name="ann", digest=b"1" * 32)


def by_token(owner: str) -> ClaimJob:
    return msgspec.structs.replace(claim(owner), permit=Permit(TOKEN.token_id, TOKEN.digest))


@in_room
async def test_a_claim_that_is_about_to_be_made_when_its_token_is_revoked_is_not(room: Room) -> None:
    await room.do(TOKEN)
    held = await room.do(claim("first"))
    revoked = await room.client(by_token("revoked"))
    after = await room.client(claim("after"))
    room.backend.stall_after(1)  # the release is written, and the claim that it leads to is not yet
    releasing = room.store.submit(
        [ReleaseJob(job_id="job", lease_id=held.lease_id or ""), RevokeToken(token_id=TOKEN.token_id)]
    )
    await room.stalled()
    room.backend.unstall()
    await releasing
    with pytest.raises(TokenOver):
        await revoked.answer
    assert (await after.answer).status == "claimed"
    assert [attempt.owner for attempt in (await the_job(room)).previous] == ["first"], "not even for a moment"


@in_room
async def test_those_in_line_whose_token_is_over_are_told_at_once(room: Room) -> None:
    await room.do(TOKEN)
    await room.do(claim("first"))
    first = await room.client(claim("the first in line"))
    theirs = [await room.client(by_token(f"r{n}")) for n in range(3)]
    room.backend.stall_after(0)
    room.waiting.recheck_tokens({TOKEN.token_id})
    await room.stalled()  # while they are being tried
    revoking = room.store.submit([RevokeToken(token_id=TOKEN.token_id)])
    room.waiting.recheck_tokens({TOKEN.token_id})
    room.backend.unstall()
    await revoking
    for client in theirs:
        with pytest.raises(TokenOver):
            await client.answer
    assert not first.answer.done()
    assert room.waiting.waiting == 1


# Clients that go


@in_room
async def test_a_claim_that_is_being_made_as_its_client_goes_is_the_next_ones(room: Room) -> None:
    held = await room.do(claim("first"))
    gone, after = await room.client(claim("gone")), await room.client(claim("after"))
    room.backend.stall_after(1)  # the release is written, and the claim that it leads to is not yet
    await release(room, held)
    await room.stalled()
    gone.go()
    await is_gone(gone)
    room.backend.unstall()
    assert (await after.answer).status == "claimed"
    assert (await the_job(room)).owner == "after"


@in_room
async def test_a_first_claim_that_is_being_made_as_its_client_goes_is_nobodys(room: Room) -> None:
    await room.do(Enqueue(job_id="job", kind="build", queue="ci"))
    room.backend.stall_after(0)
    gone = room.arrives(take("gone"))
    await room.stalled()
    gone.go()
    room.backend.unstall()
    await is_gone(gone)
    left = await the_job(room)
    assert (left.status, left.owner, left.attempts) == ("queued", None, 0)
    assert (await room.do(take("next"))).attempt == 1, "that was no attempt"


@in_room
async def test_a_task_that_is_being_claimed_as_its_client_goes_is_nobodys_and_neither_is_its_session(
    room: Room,
) -> None:
    await room.do(Enqueue(job_id="job", kind="build", queue="ci"))
    room.backend.stall_after(0)
    gone = room.arrives(ClaimTask(session_id="s", owner="gone", queues=("ci",)))
    await room.stalled()
    gone.go()
    room.backend.unstall()
    await is_gone(gone)
    assert (await the_job(room)).status == "queued"
    assert (await room.store.ask(GetSession(session_id="s"))).status == "closed"
    assert (await room.do(ClaimTask(session_id="s", owner="next", queues=("ci",)))).status == "claimed"


@in_room
async def test_who_goes_from_the_middle_of_the_line_is_not_tried(room: Room) -> None:
    held = await room.do(claim("holder"))
    clients = [await room.client(claim(name)) for name in ("one", "two", "three")]
    clients[1].go()
    await is_gone(clients[1])
    await release(room, held)
    await release(room, await clients[0].answer)
    assert (await clients[2].answer).owner == "three"
    assert room.waiting.waiting == 0


# The same request again


async def _comes_again(room: Room, *, wait: float, same_batch: bool) -> None:
    """The first of two equal requests is gone by the time its claim is made; the second is there for it."""
    room.backend.stall_after(0)
    if same_batch:
        in_the_way = room.store.submit([Probe()])
        await room.stalled()
        lost, again = room.arrives(claim("me", request_id="r")), room.arrives(claim("me", request_id="r"), wait)
    else:
        lost = room.arrives(claim("me", request_id="r"))
        await room.stalled()
        again = room.arrives(claim("me", request_id="r"), wait)
    lost.go()
    await room.stalled()
    room.backend.unstall()
    await is_gone(lost)
    mine = await again.answer
    assert mine.status == "claimed"
    await room.settled()
    beat = HeartbeatJob(job_id="job", lease_id=mine.lease_id or "")
    assert (await room.do(beat)).job_id == "job", "what was answered is true"
    if same_batch:
        await in_the_way


@pytest.mark.parametrize("same_batch", [True, False], ids=["same-batch", "next-batch"])
@pytest.mark.parametrize("wait", [0, 30], ids=["at-once", "waiting"])
def test_what_is_taken_back_is_never_what_a_repetition_was_told(wait: float, same_batch: bool) -> None:
    run_in_room(partial(_comes_again, wait=wait, same_batch=same_batch))


@in_room
async def test_a_repetition_in_the_line_gets_what_the_first_is_gone_for(room: Room) -> None:
    held = await room.do(claim("holder"))
    lost = await room.client(claim("me", request_id="r"))
    room.backend.stall_after(1)
    await release(room, held)
    await room.stalled()
    again = room.arrives(claim("me", request_id="r"))
    lost.go()
    await is_gone(lost)
    room.backend.unstall()
    mine = await again.answer
    assert mine.status == "claimed"
    await room.settled()
    await room.do(HeartbeatJob(job_id="job", lease_id=mine.lease_id or ""))


@in_room
async def test_who_has_it_already_is_told_so_and_does_not_wait_behind_others(room: Room) -> None:
    mine = await room.do(claim("me", request_id="r"))
    other = await room.client(claim("other"))
    again = await room.client(claim("me", request_id="r"))
    assert again.answer.result().lease_id == mine.lease_id
    assert not other.answer.done()


@in_room
async def test_anothers_request_with_the_same_id_does_not_keep_what_is_taken_back(room: Room) -> None:
    held = await room.do(claim("holder"))
    gone = await room.client(claim("gone", request_id="r", principal="ann"))
    other = await room.client(claim("other", request_id="r", principal="bob"))
    room.backend.stall_after(1)
    await release(room, held)
    await room.stalled()
    gone.go()
    await is_gone(gone)
    room.backend.unstall()
    assert (await other.answer).owner == "other"


# A store that fails


@pytest.mark.parametrize("fault", [Unreachable("no disk", reason="io"), RuntimeError("a bug")], ids=["fault", "bug"])
def test_a_store_that_fails_leaves_nobody_waiting_and_the_line_works_again(fault: Exception) -> None:
    async def test(room: Room) -> None:
        held = await room.do(claim("holder"))
        clients = [await room.client(claim(f"waiter-{number}")) for number in range(3)]
        room.backend.fault = fault
        clients.append(room.arrives(claim("newcomer")))
        for client in clients:
            with pytest.raises(type(fault), match=str(fault)):
                await client.answer
        assert room.waiting.waiting == 0
        room.backend.fault = None
        again = await room.client(claim("again"))
        await release(room, held)
        assert (await again.answer).owner == "again"

    run_in_room(test)


@in_room
async def test_a_first_claim_that_fails_is_told_and_leaves_no_line(room: Room) -> None:
    room.backend.fault = Unreachable("no disk", reason="io")
    with pytest.raises(Unreachable):
        await room.arrives(claim("first")).answer
    room.backend.fault = None
    assert (await room.arrives(claim("second")).answer).status == "claimed"


@in_room
async def test_a_line_ends_with_its_last_client(room: Room) -> None:
    await room.do(claim("holder"))
    clients = [await room.client(claim(name)) for name in ("one", "two")]
    assert len(room.waiting._lines) == 1
    for client in clients:
        client.go()
        await is_gone(client)
    await room.settled()
    assert room.waiting._lines == {}


@in_room
async def test_a_line_whose_last_client_goes_as_the_store_fails_works_again(room: Room) -> None:
    held = await room.do(claim("holder"))
    gone = await room.client(claim("gone"))
    room.backend.stall_after(1)
    await release(room, held)
    await room.stalled()
    room.backend.fault = Unreachable("no disk", reason="io")
    gone.go()
    await is_gone(gone)
    room.backend.unstall()
    await room.settled()
    room.backend.fault = None
    assert (await room.arrives(claim("next")).answer).status == "claimed"


# Who is next


@in_room
async def test_two_jobs_of_one_commit_are_for_the_first_two(room: Room) -> None:
    clients = [await room.client(take(f"worker-{number}")) for number in range(3)]
    await room.store.submit([Enqueue(job_id=f"job-{number}", kind="build", queue="ci") for number in range(2)])
    await room.settled()
    assert served(*clients) == ["worker-0", "worker-1"]
    assert [client.answer.result().job_id for client in clients[:2]] == ["job-0", "job-1"]


@in_room
async def test_who_has_just_come_does_not_get_one_of_several_jobs_before_those_in_line(room: Room) -> None:
    first, second = await room.client(take("first")), await room.client(take("second"))
    enqueued = room.store.submit([Enqueue(job_id=f"job-{n}", kind="build", queue="ci") for n in range(2)])
    third = room.arrives(take("third"))  # in the same turn: it is tried with the first, when both jobs are there
    await enqueued
    await room.settled()
    assert served(first, second, third) == ["first", "second"]
    assert [client.answer.result().job_id for client in (first, second)] == ["job-0", "job-1"]
    assert room.waiting.waiting == 1


@in_room
async def test_a_session_goes_to_whom_it_was_handed_over_wherever_that_one_stands(room: Room) -> None:
    """Those before it in the line cannot have it."""
    await room.do(Enqueue(job_id="job", kind="build", queue="ci"))
    task = await room.do(ClaimTask(session_id="s", owner="carl", queues=("ci",)))
    names = ("ann", "bob", "eve")
    ann, bob, eve = [await room.client(ClaimTask(session_id="s", owner=name, queues=("ci",))) for name in names]
    await room.do(HandOverSession(session_id="s", lease_id=task.lease_id, to_agent="bob"))
    assert (await bob.answer).owner == "bob"
    mine = bob.answer.result()
    await room.do(ReleaseTask(session_id="s", job_id="job", lease_id=mine.lease_id or ""))
    assert (await ann.answer).status == "claimed", "otherwise it is the first one's"
    assert not eve.answer.done()


@in_room
async def test_whose_time_is_over_is_answered_though_others_before_it_wait_on(room: Room) -> None:
    held = await room.do(claim("holder"))
    patient, hasty = await room.client(claim("patient"), 60), await room.client(claim("hasty"), 5)
    await room.passes(5)
    assert (await hasty.answer).status == "held"
    await release(room, held)
    assert (await patient.answer).status == "claimed"


@in_room
async def test_whose_time_is_over_still_gets_what_has_just_become_free_but_not_before_others(room: Room) -> None:
    held = await room.do(claim("holder"))
    first, second = await room.client(claim("first"), 60), await room.client(claim("second"), 5)
    room.backend.stall_after(1)
    await release(room, held)
    await room.stalled()
    room.jumps(5)
    room.backend.unstall()
    await room.settled()
    assert (await first.answer).status == "claimed"
    assert (await second.answer).status == "held"


@in_room
async def test_a_stop_answers_all_who_wait_and_all_who_still_come(room: Room) -> None:
    await room.do(claim("holder"))
    before = [await room.client(claim("before")), await room.client(take("worker"))]
    room.waiting.stop()
    after = [room.arrives(claim("after")), room.arrives(claim("holder-again", "other"))]
    answers = [await client.answer for client in [*before, *after]]
    assert [answer.status for answer in answers] == ["held", "empty", "held", "claimed"]


# Lines of their own

APART: list[tuple[str, ClaimCommand, ClaimCommand]] = [
    ("kinds", take("blocked", kinds=("other",)), take("served", kinds=("build",))),
    ("no-kind", take("blocked", kinds=("other",)), take("served")),
    ("prefix", take("blocked", prefix="other/"), take("served", prefix="job")),
    ("queue", take("blocked", queue="other"), take("served")),
    ("job", claim("blocked", "other"), claim("served")),
    (
        "task-kinds",
        ClaimTask(session_id="s", owner="blocked", queues=("ci",), kinds=("other",)),
        ClaimTask(session_id="s", owner="served", queues=("ci",), kinds=("build",)),
    ),
    (
        "task-queues",
        ClaimTask(session_id="s", owner="blocked", queues=("other",)),
        ClaimTask(session_id="s", owner="served", queues=("ci", "other")),
    ),
    (
        "task-prefix",
        ClaimTask(session_id="s", owner="blocked", queues=("ci",), prefix="other/"),
        ClaimTask(session_id="s", owner="served", queues=("ci",), prefix="job"),
    ),
    (
        "task-session",
        ClaimTask(session_id="held", owner="blocked", queues=("ci",)),
        ClaimTask(session_id="s", owner="served", queues=("ci",)),
    ),
]


@pytest.mark.parametrize(("blocked", "wanted"), [pytest.param(*pair, id=name) for name, *pair in APART])
def test_who_wants_something_else_stands_in_a_line_of_its_own(blocked: ClaimCommand, wanted: ClaimCommand) -> None:
    async def test(room: Room) -> None:
        await room.do(OpenSession(session_id="held", agent="holder"))
        await room.do(claim("holder", "other"))
        held = await room.do(claim("holder"))
        before, after = await room.client(blocked), await room.client(wanted)
        assert room.waiting.waiting == 2
        await release(room, held)
        await room.do(Enqueue(job_id="job-2", kind="build", queue="ci"))
        assert (await after.answer).owner == "served"
        assert not before.answer.done()

    run_in_room(test)


# Places that are kept


async def _comes_back(room: Room, back: ClaimJob, seconds: float) -> list[str | None]:
    """Who gets the job, in order, when somebody whose wait is over sends `back` so many seconds later."""
    held = await room.do(claim("holder"))
    early = await room.client(claim("early", request_id="r", principal="ann"), 10)
    late = await room.client(claim("late"), 3_000)
    await room.passes(10)
    assert (await early.answer).status == "held"
    await room.passes(seconds)
    early = await room.client(back, 3_000)
    order = []
    for _ in range(2):
        await release(room, held)
        await room.settled()
        held = next(c.answer.result() for c in (early, late) if c.answer.done() and c.answer.result() not in order)
        order.append(held)
    return [reply.owner for reply in order]


@pytest.mark.parametrize(
    ("back", "seconds", "order"),
    [
        pytest.param(claim("early", request_id="r", principal="ann"), 0, ["early", "late"], id="at-once"),
        pytest.param(
            claim("early", request_id="r", principal="ann"), POSITION_KEPT_SECONDS - 1, ["early", "late"], id="in-time"
        ),
        pytest.param(
            claim("early", request_id="r", principal="ann"), POSITION_KEPT_SECONDS + 1, ["late", "early"], id="too-late"
        ),
        pytest.param(claim("thief", request_id="r", principal="bob"), 0, ["late", "thief"], id="another-principal"),
        pytest.param(claim("early", request_id="q", principal="ann"), 0, ["late", "early"], id="another-request"),
        pytest.param(claim("early", principal="ann"), 0, ["late", "early"], id="no-request-id"),
    ],
)
def test_a_place_is_kept_for_a_while_and_for_nobody_else(back: ClaimJob, seconds: float, order: list[str]) -> None:
    async def test(room: Room) -> None:
        assert await _comes_back(room, back, seconds) == order

    run_in_room(test)


@in_room
async def test_who_goes_before_the_wait_is_over_has_given_up_the_place(room: Room) -> None:
    held = await room.do(claim("holder"))
    early = await room.client(claim("early", request_id="r"), 30)
    late = await room.client(claim("late"), 30)
    early.go()
    await is_gone(early)
    back = await room.client(claim("back", request_id="r"), 30)
    await release(room, held)
    await room.settled()
    assert served(late, back) == ["late"]


@in_room
async def test_a_place_that_was_used_is_not_kept_for_longer(room: Room) -> None:
    held = await room.do(claim("holder"))
    early = await room.client(claim("early", request_id="r"), 5)
    late = await room.client(claim("late"), 3_000)
    await room.passes(5)
    assert (await early.answer).status == "held"
    back = await room.client(claim("back", request_id="r"), 5)
    await room.passes(5)
    back.go()
    await room.passes(POSITION_KEPT_SECONDS + 1)
    again = await room.client(claim("again", request_id="r"), 3_000)
    await release(room, held)
    await room.settled()
    assert served(late, again) == ["late"]
