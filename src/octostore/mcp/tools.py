"""What an agent can do: each tool is a function, and its docstring is what the model reads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from octostore.client.async_store import AsyncOctoStore
from octostore.core.errors import InvalidInput
from octostore.core.events import DETAILS, Event
from octostore.core.limits import check_range, check_whole
from octostore.core.model import Status
from octostore.core.replies import (
    ClaimReply,
    EnqueueReply,
    HandedOverReply,
    JobPage,
    JobView,
    QueueStatus,
    ReleaseReply,
)
from octostore.mcp import answers as a
from octostore.mcp import arguments as g
from octostore.mcp.own import Caller, OwnClaims
from octostore.stores.clock import boottime

FIRST_WORD_SECONDS, PAUSE_SECONDS = 1.0, 5.0
"""When a waiting claim first says that it is waiting, and how often after that."""
LOOKED_AT_MAX = 20_000
"""How many events are looked at for a call that wants few types of them."""


class Desk(NamedTuple):
    """What a call works with."""

    store: AsyncOctoStore
    caller: Caller
    tell_progress: Callable[[float, float, str], Awaitable[None]]
    """Of the call: how much there is, of how much, in words."""

    @property
    def claims(self) -> OwnClaims:
        return self.caller.claims

    def name_of(self, owner: str | None) -> str | None:
        """As the agent calls itself, else as whoever started its server calls it."""
        return self.caller.owner if owner is None else owner


# Owning


async def claim_job(desk: Desk, given: g.ClaimJob) -> msgspec.Struct:
    """Become the only owner of a job. Call this before you touch anything the job is about.

    Work on it only if `status` is `claimed`: it is yours, and kept alive, until you call release_job. Continue from
    `checkpoint` and `note` if there are any. Otherwise leave it alone: `held` (another agent has it), `done`, `delayed`
    (until `available_at`), `dead` (needs a person). A dead agent's job is free only after its TTL (`expires_at`).
    """
    return await _claim(desk, desk.store.claim_job, given, given.job_id)


async def claim_next_job(desk: Desk, given: g.ClaimNext) -> msgspec.Struct:
    """Claim the first job in a queue. `kind` and `payload` say what to do; otherwise as in claim_job.

    `empty` means there is nothing for you now; `all_done` says whether the queue is finished, and the counts what else
    is in it. With `wait`, you get a job that arrives in time. A released job keeps its place in line. A job that
    failed, or whose owner died, waits for its backoff and then comes after jobs that were due before it.
    """
    return await _claim(desk, desk.store.claim_next, given, f"a job in queue {given.queue}")


async def report_progress(desk: Desk, given: g.Progress) -> a.Kept:
    """Tell others what you are doing on a job you hold. Call it at every step."""
    claim = await desk.claims.find(desk.store, given)
    return _still_yours(await claim.progress(given.note, given.percent))


async def checkpoint(desk: Desk, given: g.Checkpoint) -> a.Checkpointed:
    """Save what another agent would need to continue the job, such as the branch and the finished steps.

    It replaces your last checkpoint, outlives you, and comes with the next claim.
    """
    reply = await (await desk.claims.find(desk.store, given)).checkpoint(given.data)
    return a.Checkpointed(job_id=reply.job_id, saved_at=reply.saved_at)


async def heartbeat_job(desk: Desk, given: g.OneClaim) -> a.Kept:
    """You do not need this: this server heartbeats for you. It only checks that the job is still yours."""
    return _still_yours(await (await desk.claims.find(desk.store, given)).progress(None, None))


async def release_job(desk: Desk, given: g.Release) -> ReleaseReply:
    """End your claim as soon as you stop working on a job, for whatever reason.

    `outcome`: `done` (finished, with `result`), `failed` (with `error`; a queued job is retried later), `deferred` (not
    now, such as out of quota: retried after `retry_after`, no attempt counted), or `released` (for somebody else).
    Repeating the call is safe.
    """
    claim = await desk.claims.find(desk.store, given)
    return await claim.release(
        given.outcome, result=given.result, error=given.error, note=given.note, retry_after=given.retry_after
    )


async def my_claims(desk: Desk, _given: g.Nothing) -> a.MyClaims:
    """The jobs you hold through this server. Stop working on any that are `lost`."""
    return a.MyClaims(claims=await desk.claims.views(desk.store))


# Looking


async def get_job_owner(desk: Desk, given: g.OneJob) -> a.OwnerAnswer:
    """Who has a job, since when, whether it is alive (`heartbeat_at`) and what it is doing (`progress`)."""
    job = await desk.store.get_job(given.job_id)
    is_here = job.claim is not None and desk.claims.has(job.claim)
    similar = [] if job.is_known else (await desk.store.find_similar(job.job_id)).similar
    return a.OwnerAnswer(
        job_id=job.job_id,
        status=job.status,
        claim=job.claim,
        held_here=is_here,
        is_known=job.is_known,
        similar=similar,
    )


async def get_job(desk: Desk, given: g.OneJob) -> JobView:
    """All about a job: status, owner, payload, result, error, and earlier attempts (`previous`)."""
    return await desk.store.get_job(given.job_id)


async def list_claimed_jobs(desk: Desk, given: g.Listing) -> a.ClaimedJobs:
    """Who holds which jobs right now, by job name."""
    return a.claimed_jobs(await _page(desk, given, "claimed"))


async def read_events(desk: Desk, given: g.Events) -> a.Events:
    """What happened, oldest first: who had a job before, and why it was taken away. Continue with `after`."""
    check_whole("limit", given.limit, 1, g.PAGE_MAX)
    unknown = sorted(set(given.types or ()) - DETAILS.keys())
    if unknown:
        raise InvalidInput("types", f"has {unknown[0]!r}, which is not a type of event; use: {', '.join(DETAILS)}")
    events, after = await _events(desk, given)
    if given.details:
        return a.Events(events=events, after=after)
    is_of_one_job = given.job_id is not None
    return a.Events(events=[a.short(event, is_of_one_job=is_of_one_job) for event in events], after=after)


# Queues


async def enqueue_job(desk: Desk, given: g.Enqueue) -> EnqueueReply:
    """Put a job in a queue, for any agent to take with claim_next_job. This does not make you its owner.

    Use a `job_id` that says what it is about, such as `review-pr-77`: enqueueing it twice changes nothing.
    """
    return await desk.store.enqueue(**asdict(given))


async def queue_status(desk: Desk, given: g.OneQueue) -> QueueStatus:
    """How many jobs of a queue are ready, due later, claimed (by whom), dead and done; `paused`; and `all_done`."""
    return await desk.store.queue_status(given.queue)


# Sessions


async def open_session(desk: Desk, given: g.OpenSession) -> a.Opened:
    """Open a session, or resume one: your notes (`context`) that survive a restart, and claims that end together.

    You get what was saved last, what was in flight, and a hand-over's `note`. `held`: another agent has it, or crashed
    less than its TTL ago.
    """
    return await desk.caller.sessions.open(desk.store, desk.name_of(given.owner), given)


async def save_session(desk: Desk, given: g.SaveSession) -> a.Saved:
    """Save the session's `context`, replacing the last one: whatever you need to go on after a restart."""
    session = await desk.caller.sessions.find(desk.store, given)
    return a.Saved(session_id=session.session_id, phase=await session.save(given.context, given.phase))


async def hand_over_session(desk: Desk, given: g.HandOver) -> HandedOverReply:
    """Give a session, with its context and the claims bound to it, to another agent.

    That agent accepts with open_session, within the session's TTL; nobody else can.
    """
    session = await desk.caller.sessions.find(desk.store, given)
    return await session.hand_over(given.to_agent, given.note)


async def close_session(desk: Desk, given: g.OneSession) -> a.Closed:
    """End a session and release the claims bound to it. Its context stays, for open_session to resume."""
    session = await desk.caller.sessions.find(desk.store, given)
    await session.close()
    return a.Closed(session_id=session.session_id)


# Operating


async def recover_jobs(desk: Desk, _given: g.Nothing) -> a.Recovered:
    """Record every expiry now, and list the jobs taken back, with the evidence. Rarely needed."""
    return a.Recovered(recovered=await desk.store.recover())


async def dead_jobs(desk: Desk, given: g.DeadListing) -> JobPage:
    """Jobs that are out of attempts or cancelled, and need a person."""
    return await _page(desk, given, "dead")


async def requeue_job(desk: Desk, given: g.Operation) -> JobView:
    """Let a dead or done job run again, with all its attempts. Only if your user asks."""
    return await desk.store.requeue(**asdict(given))


async def cancel_job(desk: Desk, given: g.Operation) -> JobView:
    """Take a job out of its queue for good. Only if your user asks.

    An owner is asked to stop; the job is cancelled when it has.
    """
    return await desk.store.cancel(**asdict(given), drain=True)


async def stop_job(desk: Desk, given: g.Operation) -> JobView:
    """Ask a job's owner to stop. It keeps the job until it does. Only if your user asks."""
    await desk.store.request_stop(**asdict(given))
    return await desk.store.get_job(given.job_id)


async def force_release_job(desk: Desk, given: g.Operation) -> JobView:
    """Take a job away from its owner, even if it is alive. Only if your user asks; prefer stop_job."""
    await desk.store.force_release(**asdict(given))
    return await desk.store.get_job(given.job_id)


# What they share


def _still_yours(beat: Any) -> a.Kept:
    return a.Kept(job_id=beat.job_id, expires_at=beat.expires_at)


async def _claim(desk: Desk, claim: Callable[..., Awaitable[ClaimReply]], given: g.Terms, what: str) -> msgspec.Struct:
    check_range("wait", given.wait, 0, g.WAIT_MAX_SECONDS, " seconds")
    desk.claims.check_room()
    asked_at = boottime()
    async with _saying_that_it_waits(desk, what, given.wait):
        reply = await claim(**asdict(given) | {"owner": desk.name_of(given.owner)})
    if reply.status == "claimed":
        return await desk.claims.keep(desk.store, reply, asked_at)
    return a.claim_answer(reply, held_here=desk.claims.has(reply))


@asynccontextmanager
async def _saying_that_it_waits(desk: Desk, what: str, wait: float) -> AsyncIterator[None]:
    async def say() -> None:
        waited = FIRST_WORD_SECONDS
        await asyncio.sleep(waited)
        while True:
            await desk.tell_progress(min(waited, wait), wait, f"waiting for {what}")
            await asyncio.sleep(PAUSE_SECONDS)
            waited += PAUSE_SECONDS

    saying = asyncio.create_task(say()) if wait else None
    try:
        yield
    finally:
        if saying is not None:
            saying.cancel()


async def _page(desk: Desk, given: g.Listing, status: Status) -> JobPage:
    check_whole("limit", given.limit, 1, g.PAGE_MAX)
    return await desk.store.list_jobs(**asdict(given), status=status)


async def _events(desk: Desk, given: g.Events) -> tuple[list[Event], int]:
    """Those that are wanted, and up to where the log was looked at."""
    events: list[Event] = []
    after, looked_at = given.after, 0
    log: Any = desk.store.events(given.after, job_id=given.job_id, prefix=given.prefix)
    async with aclosing(log):
        async for event in log:
            after, looked_at = event.seq, looked_at + 1
            if given.types is None or event.type in given.types:
                events.append(event)
            if len(events) == given.limit or looked_at == LOOKED_AT_MAX:
                break
    return events, after


# The table


class Tool(NamedTuple):
    """`name` is that of the function; hints are those of the protocol."""

    title: str
    call: Callable[[Desk, Any], Awaitable[msgspec.Struct]]
    takes: type[g.Arguments]
    is_reading: bool = False
    is_idempotent: bool = True
    is_destructive: bool = False

    @property
    def name(self) -> str:
        return self.call.__name__

    @property
    def description(self) -> str:
        """As one line for each paragraph."""
        paragraphs = (self.call.__doc__ or "").split("\n\n")
        return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


TOOLS = [
    Tool("Claim a job", claim_job, g.ClaimJob, is_idempotent=False),
    Tool("Claim the next job in a queue", claim_next_job, g.ClaimNext, is_idempotent=False),
    Tool("Report progress", report_progress, g.Progress),
    Tool("Save a checkpoint", checkpoint, g.Checkpoint),
    Tool("Release a job", release_job, g.Release),
    Tool("Heartbeat (not needed)", heartbeat_job, g.OneClaim),
    Tool("My claims", my_claims, g.Nothing, is_reading=True),
    Tool("Who has a job", get_job_owner, g.OneJob, is_reading=True),
    Tool("A job and its history", get_job, g.OneJob, is_reading=True),
    Tool("Who has what", list_claimed_jobs, g.Listing, is_reading=True),
    Tool("What happened", read_events, g.Events, is_reading=True),
    Tool("Enqueue a job", enqueue_job, g.Enqueue, is_idempotent=False),
    Tool("What is in a queue", queue_status, g.OneQueue, is_reading=True),
    Tool("Open or resume a session", open_session, g.OpenSession, is_idempotent=False),
    Tool("Save a session's context", save_session, g.SaveSession),
    Tool("Hand a session over", hand_over_session, g.HandOver),
    Tool("Close a session", close_session, g.OneSession),
]
OPERATOR_TOOLS = [
    Tool("Recover jobs of dead owners", recover_jobs, g.Nothing),
    Tool("Dead jobs", dead_jobs, g.DeadListing, is_reading=True),
    Tool("Run a job again", requeue_job, g.Operation),
    Tool("Ask an owner to stop", stop_job, g.Operation),
    Tool("Cancel a job", cancel_job, g.Operation, is_destructive=True),
    Tool("Take a job away", force_release_job, g.Operation, is_destructive=True),
]
"""Only for those whom a person has started with `--operator`."""


def tools_for(*, is_operator: bool) -> list[Tool]:
    return [*TOOLS, *OPERATOR_TOOLS] if is_operator else TOOLS
