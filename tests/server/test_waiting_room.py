"""Waiting claims, with every race set up by the test: disconnects, stalls, failures."""

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


def claim_next(owner: str, kinds: tuple[str, ...] | None = None, prefix: str = "", queue: str = "ci") -> ClaimNext:
    return ClaimNext(owner=owner, queue=queue, kinds=kinds, prefix=prefix, ttl=600)


async def release(room: Room, reply: ClaimReply) -> None:
    await room.do(ReleaseJob(job_id=reply.job_id or "", lease_id=reply.lease_id or ""))


async def read_job(room: Room, job_id: str = "job") -> JobView:
    await room.settled()
    return await room.store.ask(GetJob(job_id=job_id))


async def assert_gone(client: Client) -> None:
    with pytest.raises(ClientDisconnected):
        await client.reply


def owners_with_reply(*clients: Client) -> list[str | None]:
    """The owners among them that have a reply."""
    return [client.reply.result().owner for client in clients if client.reply.done()]


# Revoked tokens


TOKEN = CreateToken(token_id="t", name="ann", digest=b"1" * 32)


def by_token(owner: str) -> ClaimJob:
    return msgspec.structs.replace(claim(owner), permit=Permit(TOKEN.token_id, TOKEN.digest))


@in_room
async def test_a_claim_is_not_made_if_its_token_is_revoked_just_before(room: Room) -> None:
    await room.do(TOKEN)
    held = await room.do(claim("first"))
    revoked = await room.client(by_token("revoked"))
    after = await room.client(claim("after"))
    room.backend.stall_after(1)  # the release is written, but not yet the claim that follows
    releasing = room.store.submit(
        [ReleaseJob(job_id="job", lease_id=held.lease_id or ""), RevokeToken(token_id=TOKEN.token_id)]
    )
    await room.stalled()
    room.backend.unstall()
    await releasing
    with pytest.raises(TokenOver):
        await revoked.reply
    assert (await after.reply).status == "claimed"
    assert [attempt.owner for attempt in (await read_job(room)).previous] == ["first"], "not even for a moment"


@in_room
async def test_waiters_with_a_revoked_token_get_the_error_at_once(room: Room) -> None:
    await room.do(TOKEN)
    await room.do(claim("first"))
    first = await room.client(claim("the first in line"))
    theirs = [await room.client(by_token(f"r{n}")) for n in range(3)]
    room.backend.stall_after(0)
    room.waiting.recheck_tokens({TOKEN.token_id})
    await room.stalled()  # while their claims are tried
    revoking = room.store.submit([RevokeToken(token_id=TOKEN.token_id)])
    room.waiting.recheck_tokens({TOKEN.token_id})
    room.backend.unstall()
    await revoking
    for client in theirs:
        with pytest.raises(TokenOver):
            await client.reply
    assert not first.reply.done()
    assert room.waiting.waiting == 1


# Clients that disconnect


@in_room
async def test_a_claim_in_progress_when_its_client_disconnects_goes_to_the_next_waiter(room: Room) -> None:
    held = await room.do(claim("first"))
    gone, after = await room.client(claim("gone")), await room.client(claim("after"))
    room.backend.stall_after(1)  # the release is written, but not yet the claim that follows
    await release(room, held)
    await room.stalled()
    gone.go()
    await assert_gone(gone)
    room.backend.unstall()
    assert (await after.reply).status == "claimed"
    assert (await read_job(room)).owner == "after"


@in_room
async def test_a_first_claim_in_progress_when_its_client_disconnects_is_undone(room: Room) -> None:
    await room.do(Enqueue(job_id="job", kind="build", queue="ci"))
    room.backend.stall_after(0)
    gone = room.arrives(claim_next("gone"))
    await room.stalled()
    gone.go()
    room.backend.unstall()
    await assert_gone(gone)
    left = await read_job(room)
    assert (left.status, left.owner, left.attempts) == ("queued", None, 0)
    assert (await room.do(claim_next("next"))).attempt == 1, "the undone claim does not count"


@in_room
async def test_a_task_claim_in_progress_when_its_client_disconnects_is_undone_with_its_session(
    room: Room,
) -> None:
    await room.do(Enqueue(job_id="job", kind="build", queue="ci"))
    room.backend.stall_after(0)
    gone = room.arrives(ClaimTask(session_id="s", owner="gone", queues=("ci",)))
    await room.stalled()
    gone.go()
    room.backend.unstall()
    await assert_gone(gone)
    assert (await read_job(room)).status == "queued"
    assert (await room.store.ask(GetSession(session_id="s"))).status == "closed"
    assert (await room.do(ClaimTask(session_id="s", owner="next", queues=("ci",)))).status == "claimed"


@in_room
async def test_a_client_that_disconnects_in_the_middle_of_the_line_is_skipped(room: Room) -> None:
    held = await room.do(claim("holder"))
    clients = [await room.client(claim(name)) for name in ("one", "two", "three")]
    clients[1].go()
    await assert_gone(clients[1])
    await release(room, held)
    await release(room, await clients[0].reply)
    assert (await clients[2].reply).owner == "three"
    assert room.waiting.waiting == 0


# Repeated requests


async def _repeat_request(room: Room, *, wait: float, same_batch: bool) -> None:
    """The first of two equal requests disconnects before its claim is made; the second gets it."""
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
    await assert_gone(lost)
    mine = await again.reply
    assert mine.status == "claimed"
    await room.settled()
    heartbeat = HeartbeatJob(job_id="job", lease_id=mine.lease_id or "")
    assert (await room.do(heartbeat)).job_id == "job", "the reply was true"
    if same_batch:
        await in_the_way


@pytest.mark.parametrize("same_batch", [True, False], ids=["same-batch", "next-batch"])
@pytest.mark.parametrize("wait", [0, 30], ids=["at-once", "waiting"])
def test_a_claim_that_a_repeat_got_is_never_undone(wait: float, same_batch: bool) -> None:
    run_in_room(partial(_repeat_request, wait=wait, same_batch=same_batch))


@in_room
async def test_a_repeat_in_line_gets_the_claim_of_the_first_request_that_disconnected(room: Room) -> None:
    held = await room.do(claim("holder"))
    lost = await room.client(claim("me", request_id="r"))
    room.backend.stall_after(1)
    await release(room, held)
    await room.stalled()
    again = room.arrives(claim("me", request_id="r"))
    lost.go()
    await assert_gone(lost)
    room.backend.unstall()
    mine = await again.reply
    assert mine.status == "claimed"
    await room.settled()
    await room.do(HeartbeatJob(job_id="job", lease_id=mine.lease_id or ""))


@in_room
async def test_a_repeat_of_a_granted_claim_does_not_wait_behind_others(room: Room) -> None:
    mine = await room.do(claim("me", request_id="r"))
    other = await room.client(claim("other"))
    again = await room.client(claim("me", request_id="r"))
    assert again.reply.result().lease_id == mine.lease_id
    assert not other.reply.done()


@in_room
async def test_another_principals_request_with_the_same_id_is_not_a_repeat(room: Room) -> None:
    held = await room.do(claim("holder"))
    gone = await room.client(claim("gone", request_id="r", principal="ann"))
    other = await room.client(claim("other", request_id="r", principal="bob"))
    room.backend.stall_after(1)
    await release(room, held)
    await room.stalled()
    gone.go()
    await assert_gone(gone)
    room.backend.unstall()
    assert (await other.reply).owner == "other"


# Store failures


@pytest.mark.parametrize("fault", [Unreachable("no disk", reason="io"), RuntimeError("a bug")], ids=["fault", "bug"])
def test_a_failing_store_ends_all_waits_and_the_line_works_again(fault: Exception) -> None:
    async def test(room: Room) -> None:
        held = await room.do(claim("holder"))
        clients = [await room.client(claim(f"waiter-{number}")) for number in range(3)]
        room.backend.fault = fault
        clients.append(room.arrives(claim("newcomer")))
        for client in clients:
            with pytest.raises(type(fault), match=str(fault)):
                await client.reply
        assert room.waiting.waiting == 0
        room.backend.fault = None
        again = await room.client(claim("again"))
        await release(room, held)
        assert (await again.reply).owner == "again"

    run_in_room(test)


@in_room
async def test_a_first_claim_that_fails_raises_and_leaves_no_line(room: Room) -> None:
    room.backend.fault = Unreachable("no disk", reason="io")
    with pytest.raises(Unreachable):
        await room.arrives(claim("first")).reply
    room.backend.fault = None
    assert (await room.arrives(claim("second")).reply).status == "claimed"


@in_room
async def test_a_line_ends_with_its_last_client(room: Room) -> None:
    await room.do(claim("holder"))
    clients = [await room.client(claim(name)) for name in ("one", "two")]
    assert len(room.waiting._lines) == 1
    for client in clients:
        client.go()
        await assert_gone(client)
    await room.settled()
    assert room.waiting._lines == {}


@in_room
async def test_a_line_works_again_after_its_last_client_disconnects_while_the_store_fails(room: Room) -> None:
    held = await room.do(claim("holder"))
    gone = await room.client(claim("gone"))
    room.backend.stall_after(1)
    await release(room, held)
    await room.stalled()
    room.backend.fault = Unreachable("no disk", reason="io")
    gone.go()
    await assert_gone(gone)
    room.backend.unstall()
    await room.settled()
    room.backend.fault = None
    assert (await room.arrives(claim("next")).reply).status == "claimed"


# Order


@in_room
async def test_two_jobs_of_one_commit_go_to_the_first_two(room: Room) -> None:
    clients = [await room.client(claim_next(f"worker-{number}")) for number in range(3)]
    await room.store.submit([Enqueue(job_id=f"job-{number}", kind="build", queue="ci") for number in range(2)])
    await room.settled()
    assert owners_with_reply(*clients) == ["worker-0", "worker-1"]
    assert [client.reply.result().job_id for client in clients[:2]] == ["job-0", "job-1"]


@in_room
async def test_a_newcomer_does_not_overtake_the_line_when_several_jobs_arrive(room: Room) -> None:
    first, second = await room.client(claim_next("first")), await room.client(claim_next("second"))
    enqueued = room.store.submit([Enqueue(job_id=f"job-{n}", kind="build", queue="ci") for n in range(2)])
    third = room.arrives(
        claim_next("third")
    )  # in the same turn, so it is tried with the first, after both jobs are enqueued
    await enqueued
    await room.settled()
    assert owners_with_reply(first, second, third) == ["first", "second"]
    assert [client.reply.result().job_id for client in (first, second)] == ["job-0", "job-1"]
    assert room.waiting.waiting == 1


@in_room
async def test_a_handed_over_session_goes_to_its_new_agent_wherever_it_is_in_line(room: Room) -> None:
    """Waiters before it cannot claim the task."""
    await room.do(Enqueue(job_id="job", kind="build", queue="ci"))
    task = await room.do(ClaimTask(session_id="s", owner="carl", queues=("ci",)))
    names = ("ann", "bob", "eve")
    ann, bob, eve = [await room.client(ClaimTask(session_id="s", owner=name, queues=("ci",))) for name in names]
    await room.do(HandOverSession(session_id="s", lease_id=task.lease_id, to_agent="bob"))
    assert (await bob.reply).owner == "bob"
    mine = bob.reply.result()
    await room.do(ReleaseTask(session_id="s", job_id="job", lease_id=mine.lease_id or ""))
    assert (await ann.reply).status == "claimed", "after that, the first in line"
    assert not eve.reply.done()


@in_room
async def test_a_wait_that_ends_gets_its_reply_while_earlier_waiters_go_on_waiting(room: Room) -> None:
    held = await room.do(claim("holder"))
    patient, hasty = await room.client(claim("patient"), 60), await room.client(claim("hasty"), 5)
    await room.passes(5)
    assert (await hasty.reply).status == "held"
    await release(room, held)
    assert (await patient.reply).status == "claimed"


@in_room
async def test_a_wait_that_ends_does_not_overtake_others_for_a_job_that_just_became_free(room: Room) -> None:
    held = await room.do(claim("holder"))
    first, second = await room.client(claim("first"), 60), await room.client(claim("second"), 5)
    room.backend.stall_after(1)
    await release(room, held)
    await room.stalled()
    room.jumps(5)
    room.backend.unstall()
    await room.settled()
    assert (await first.reply).status == "claimed"
    assert (await second.reply).status == "held"


@in_room
async def test_a_stop_replies_to_all_waiters_and_to_later_claims(room: Room) -> None:
    await room.do(claim("holder"))
    before = [await room.client(claim("before")), await room.client(claim_next("worker"))]
    room.waiting.stop()
    after = [room.arrives(claim("after")), room.arrives(claim("holder-again", "other"))]
    replies = [await client.reply for client in [*before, *after]]
    assert [reply.status for reply in replies] == ["held", "empty", "held", "claimed"]


# Separate lines

APART: list[tuple[str, ClaimCommand, ClaimCommand]] = [
    ("kinds", claim_next("blocked", kinds=("other",)), claim_next("served", kinds=("build",))),
    ("no-kind", claim_next("blocked", kinds=("other",)), claim_next("served")),
    ("prefix", claim_next("blocked", prefix="other/"), claim_next("served", prefix="job")),
    ("queue", claim_next("blocked", queue="other"), claim_next("served")),
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
def test_different_requests_wait_in_separate_lines(blocked: ClaimCommand, wanted: ClaimCommand) -> None:
    async def test(room: Room) -> None:
        await room.do(OpenSession(session_id="held", agent="holder"))
        await room.do(claim("holder", "other"))
        held = await room.do(claim("holder"))
        before, after = await room.client(blocked), await room.client(wanted)
        assert room.waiting.waiting == 2
        await release(room, held)
        await room.do(Enqueue(job_id="job-2", kind="build", queue="ci"))
        assert (await after.reply).owner == "served"
        assert not before.reply.done()

    run_in_room(test)


# Kept positions


async def _order_after_repeat(room: Room, back: ClaimJob, seconds: float) -> list[str | None]:
    """The order of the owners when a waiter whose wait has ended sends `back` after `seconds`."""
    held = await room.do(claim("holder"))
    early = await room.client(claim("early", request_id="r", principal="ann"), 10)
    late = await room.client(claim("late"), 3_000)
    await room.passes(10)
    assert (await early.reply).status == "held"
    await room.passes(seconds)
    early = await room.client(back, 3_000)
    order = []
    for _ in range(2):
        await release(room, held)
        await room.settled()
        held = next(c.reply.result() for c in (early, late) if c.reply.done() and c.reply.result() not in order)
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
def test_a_position_is_kept_for_a_while_and_only_for_the_same_request(
    back: ClaimJob, seconds: float, order: list[str]
) -> None:
    async def test(room: Room) -> None:
        assert await _order_after_repeat(room, back, seconds) == order

    run_in_room(test)


@in_room
async def test_a_client_that_disconnects_before_its_wait_ends_loses_its_position(room: Room) -> None:
    held = await room.do(claim("holder"))
    early = await room.client(claim("early", request_id="r"), 30)
    late = await room.client(claim("late"), 30)
    early.go()
    await assert_gone(early)
    back = await room.client(claim("back", request_id="r"), 30)
    await release(room, held)
    await room.settled()
    assert owners_with_reply(late, back) == ["late"]


@in_room
async def test_using_a_kept_position_does_not_extend_it(room: Room) -> None:
    held = await room.do(claim("holder"))
    early = await room.client(claim("early", request_id="r"), 5)
    late = await room.client(claim("late"), 3_000)
    await room.passes(5)
    assert (await early.reply).status == "held"
    back = await room.client(claim("back", request_id="r"), 5)
    await room.passes(5)
    back.go()
    await room.passes(POSITION_KEPT_SECONDS + 1)
    again = await room.client(claim("again", request_id="r"), 3_000)
    await release(room, held)
    await room.settled()
    assert owners_with_reply(late, again) == ["late"]
