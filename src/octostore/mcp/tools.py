"""What an agent can do: each tool is a function, and its docstring is what the model reads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from octostore.client.async_store import AsyncOctoStore
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
    `checkpoint` and `note` if there are any. Otherwise leave it alone: `held` (another agent has it, and if that
    has died, until `expires_at`), `done`, `delayed` (until `available_at`), `dead` (needs a person).
    """
    return await _claim(desk, given, partial(desk.store.claim_job, **_terms(desk, given)), given.job_id)


async def claim_next_job(desk: Desk, given: g.ClaimNext) -> msgspec.Struct:
    """Claim the first job in a queue. `kind` and `payload` say what to do; otherwise as in claim_job.

    `empty`: there is nothing for you now; `all_done` says whether the queue is finished. With `wait`, you get a
    job that arrives in time. A job that failed, or whose owner died, comes back later, behind others.
    """
    claim = partial(desk.store.claim_next, **_terms(desk, given))
    return await _claim(desk, given, claim, f"a job in queue {given.queue}")


async def report_progress(desk: Desk, given: g.Progress) -> a.Kept:
    """Tell others what you are doing on a job you hold, and see that it is still yours. Call it at every step."""
    claim = await desk.claims.find(desk.store, given)
    return _still_yours(await claim.progress(given.note, given.percent))


async def checkpoint(desk: Desk, given: g.Checkpoint) -> a.Checkpointed:
    """Save what another agent would need to continue the job, such as the branch and the finished steps.

    It replaces the last one, and comes with the next claim.
    """
    reply = await (await desk.claims.find(desk.store, given)).checkpoint(given.data)
    return a.Checkpointed(job_id=reply.job_id, saved_at=reply.saved_at)


async def release_job(desk: Desk, given: g.Release) -> ReleaseReply:
    """End your claim as soon as you stop working on a job, for whatever reason.

    `outcome`: `done` (finished, with `result`), `failed` (with `error`; a queued job is retried later), `deferred` (not
    now, such as out of quota: retried after `retry_after`, no attempt counted), or `released` (for somebody else).
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
    wanted = asdict(given)
    with_details = wanted.pop("details")
    page = await desk.store.list_events(**wanted)
    if with_details:
        return a.Events(events=page.events, after=page.after)
    is_of_one_job = given.job_id is not None
    return a.Events(events=[a.short(event, is_of_one_job=is_of_one_job) for event in page.events], after=page.after)


# Queues


async def enqueue_job(desk: Desk, given: g.Enqueue) -> EnqueueReply:
    """Put a job in a queue, for any agent to claim. This does not make you its owner.

    With a `job_id`, such as `review-pr-77`, enqueueing it twice changes nothing.
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


async def claim_task(desk: Desk, given: g.ClaimTask) -> msgspec.Struct:
    """Claim the next job in a queue as the task of a session you opened, as in claim_next_job.

    A session has one task at a time, takes it along when handed over, and after a crash gets it again first. `held`: it
    still has `job_id`; end that with release_task.
    """
    session = await desk.caller.sessions.find(desk.store, given)
    claim = partial(session.claim_task, desk.store, given)
    return await _claim(desk, given, claim, f"a task in queue {given.queue}")


async def release_task(desk: Desk, given: g.ReleaseTask) -> ReleaseReply:
    """End a session's task, as in release_job. The session stays open, for the next claim_task."""
    return await release_job(desk, given)


async def save_session(desk: Desk, given: g.SaveSession) -> a.Saved:
    """Save the session's `context`: whatever you need to go on after a restart. It replaces the last one."""
    session = await desk.caller.sessions.find(desk.store, given)
    return a.Saved(session_id=session.session_id, phase=await session.save(given.context, given.phase))


async def hand_over_session(desk: Desk, given: g.HandOver) -> HandedOverReply:
    """Give a session, with its context and the claims bound to it, to another agent.

    Only that agent can accept it, with open_session, within the session's TTL.
    """
    session = await desk.caller.sessions.find(desk.store, given)
    return await session.hand_over(given.to_agent, given.note)


async def close_session(desk: Desk, given: g.OneSession) -> a.Closed:
    """End a session and release the claims bound to it. Its context stays, for whoever resumes it."""
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


def _terms(desk: Desk, given: g.Terms) -> dict[str, Any]:
    return asdict(given) | {"owner": desk.name_of(given.owner)}


async def _claim(
    desk: Desk, given: g.Terms | g.Task, claim: Callable[[], Awaitable[ClaimReply]], what: str
) -> msgspec.Struct:
    check_range("wait", given.wait, 0, given.WAIT_MAX_SECONDS, " seconds")
    desk.claims.check_room()
    asked_at = boottime()
    async with _saying_that_it_waits(desk, what, given.wait):
        reply = await claim()
    if reply.status == "claimed":
        return await desk.claims.keep(desk.store, reply, asked_at)
    if reply.status == "held" and isinstance(given, g.Task):
        return desk.claims.at_hand(reply)
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


# The table


class Tool(NamedTuple):
    """`name` is that of the function; hints are those of the protocol."""

    call: Callable[[Desk, Any], Awaitable[msgspec.Struct]]
    takes: type[g.Arguments]
    is_reading: bool = False
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
    Tool(claim_job, g.ClaimJob),
    Tool(claim_next_job, g.ClaimNext),
    Tool(report_progress, g.Progress),
    Tool(checkpoint, g.Checkpoint),
    Tool(release_job, g.Release),
    Tool(my_claims, g.Nothing, is_reading=True),
    Tool(get_job_owner, g.OneJob, is_reading=True),
    Tool(get_job, g.OneJob, is_reading=True),
    Tool(list_claimed_jobs, g.Listing, is_reading=True),
    Tool(read_events, g.Events, is_reading=True),
    Tool(enqueue_job, g.Enqueue),
    Tool(queue_status, g.OneQueue, is_reading=True),
    Tool(open_session, g.OpenSession),
    Tool(claim_task, g.ClaimTask),
    Tool(release_task, g.ReleaseTask),
    Tool(save_session, g.SaveSession),
    Tool(hand_over_session, g.HandOver),
    Tool(close_session, g.OneSession),
]
OPERATOR_TOOLS = [
    Tool(recover_jobs, g.Nothing),
    Tool(dead_jobs, g.DeadListing, is_reading=True),
    Tool(requeue_job, g.Operation),
    Tool(stop_job, g.Operation),
    Tool(cancel_job, g.Operation, is_destructive=True),
    Tool(force_release_job, g.Operation, is_destructive=True),
]
"""Only for those whom a person has started with `--operator`."""


def tools_for(*, is_operator: bool) -> list[Tool]:
    return [*TOOLS, *OPERATOR_TOOLS] if is_operator else TOOLS
