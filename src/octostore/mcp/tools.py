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
from octostore.mcp import arguments as g
from octostore.mcp import results as r
from octostore.mcp.own import Caller, OwnClaims
from octostore.stores.clock import boottime

FIRST_WORD_SECONDS, PAUSE_SECONDS = 1.0, 5.0
"""When a waiting claim first reports that it is waiting, and how often after that."""


class ToolContext(NamedTuple):
    """What a call works with."""

    store: AsyncOctoStore
    caller: Caller
    notify_progress: Callable[[float, float, str], Awaitable[None]]
    """Reports the call's progress: how much is done, the total, and a message."""

    @property
    def claims(self) -> OwnClaims:
        return self.caller.claims

    def name_of(self, owner: str | None) -> str | None:
        """The agent's own name for itself, else the one its server was started with."""
        return self.caller.owner if owner is None else owner


# Owning


async def claim_job(context: ToolContext, arguments: g.ClaimJob) -> msgspec.Struct:
    """Become the only owner of a job. Call this before you touch anything the job is about.

    Work on it only if `status` is `claimed`: it then stays yours until you call release_job. Continue from
    `checkpoint` and `note` if there are any. Otherwise leave it alone: `held` (another agent has it; if that
    agent has died, until `expires_at`), `done`, `delayed` (until `available_at`), `dead` (needs a person).
    """
    return await _claim(
        context, arguments, partial(context.store.claim_job, **_terms(context, arguments)), arguments.job_id
    )


async def claim_next_job(context: ToolContext, arguments: g.ClaimNext) -> msgspec.Struct:
    """Claim the first job in a queue. `kind` and `payload` say what to do; otherwise as in claim_job.

    `empty`: there is nothing for you now; `all_done` says whether the queue is finished. With `wait`, you get a
    job that arrives in time. A job that failed, or whose owner died, comes back later, behind others.
    """
    claim = partial(context.store.claim_next, **_terms(context, arguments))
    return await _claim(context, arguments, claim, f"a job in queue {arguments.queue}")


async def report_progress(context: ToolContext, arguments: g.Progress) -> r.Kept:
    """Tell others what you are doing on a job you hold, and see that it is still yours. Call it at every step."""
    claim = await context.claims.find(context.store, arguments)
    beat = await claim.progress(arguments.note, arguments.percent)
    return r.Kept(job_id=beat.job_id, expires_at=beat.expires_at)


async def checkpoint(context: ToolContext, arguments: g.Checkpoint) -> r.Checkpointed:
    """Save what another agent would need to continue the job, like the branch and the finished steps.

    It replaces the last one, and comes with the next claim.
    """
    reply = await (await context.claims.find(context.store, arguments)).checkpoint(arguments.data)
    return r.Checkpointed(job_id=reply.job_id, saved_at=reply.saved_at)


async def release_job(context: ToolContext, arguments: g.Release) -> ReleaseReply:
    """End your claim as soon as you stop working on a job, for whatever reason.

    `outcome`: `done` (finished, with `result`), `failed` (with `error`; a queued job is retried later), `deferred` (not
    now, for example out of quota: retried after `retry_after`, no attempt counted), or `released` (for someone else).
    """
    claim = await context.claims.find(context.store, arguments)
    return await claim.release(
        arguments.outcome,
        result=arguments.result,
        error=arguments.error,
        note=arguments.note,
        retry_after=arguments.retry_after,
    )


async def my_claims(context: ToolContext, _arguments: g.Nothing) -> r.MyClaims:
    """The jobs you hold through this server. Stop working on any that are `lost`."""
    return r.MyClaims(claims=await context.claims.views(context.store))


# Reading


async def get_job_owner(context: ToolContext, arguments: g.OneJob) -> r.OwnerResult:
    """A job's owner, since when, whether it is alive (`heartbeat_at`) and what it is doing (`progress`)."""
    job = await context.store.get_job(arguments.job_id)
    is_here = job.claim is not None and context.claims.has(job.claim)
    similar = [] if job.is_known else (await context.store.find_similar(job.job_id)).similar
    return r.OwnerResult(
        job_id=job.job_id,
        status=job.status,
        claim=job.claim,
        held_here=is_here,
        is_known=job.is_known,
        similar=similar,
    )


async def get_job(context: ToolContext, arguments: g.OneJob) -> JobView:
    """All about a job: status, owner, payload, result, error, and earlier attempts (`previous`)."""
    return await context.store.get_job(arguments.job_id)


async def list_claimed_jobs(context: ToolContext, arguments: g.Listing) -> r.ClaimedJobs:
    """Who holds which jobs right now, by job name."""
    return r.claimed_jobs(await _page(context, arguments, "claimed"))


async def read_events(context: ToolContext, arguments: g.Events) -> r.Events:
    """What happened, oldest first: who had a job before, and why it was taken away. Continue with `after`."""
    check_whole("limit", arguments.limit, 1, g.PAGE_MAX)
    wanted = asdict(arguments)
    with_details = wanted.pop("details")
    page = await context.store.list_events(**wanted)
    if with_details:
        return r.Events(events=page.events, after=page.after)
    is_of_one_job = arguments.job_id is not None
    return r.Events(events=[r.short(event, is_of_one_job=is_of_one_job) for event in page.events], after=page.after)


# Queues


async def enqueue_job(context: ToolContext, arguments: g.Enqueue) -> EnqueueReply:
    """Put a job in a queue, for any agent to claim. This does not make you its owner.

    With a `job_id`, like `review-pr-77`, enqueueing it twice changes nothing.
    """
    return await context.store.enqueue(**asdict(arguments))


async def queue_status(context: ToolContext, arguments: g.OneQueue) -> QueueStatus:
    """How many jobs of a queue are ready, due later, claimed (by whom), dead and done; `paused`; and `all_done`."""
    return await context.store.queue_status(arguments.queue)


# Sessions


async def open_session(context: ToolContext, arguments: g.OpenSession) -> r.Opened:
    """Open a session, or resume one: your notes (`context`) that survive a restart, and claims that end together.

    You get what was saved last, what was in flight, and a hand-over's `note`. `held`: another agent has it, or crashed
    less than its TTL ago.
    """
    return await context.caller.sessions.open(context.store, context.name_of(arguments.owner), arguments)


async def claim_task(context: ToolContext, arguments: g.ClaimTask) -> msgspec.Struct:
    """Claim the next job in a queue as the task of a session you opened, as in claim_next_job.

    A session has one task at a time, and keeps it when handed over. After a crash, the task comes first again, but not
    before its `available_at` (see open_session). `held`: the session still has `job_id`; end that with release_task.
    """
    session = await context.caller.sessions.find(context.store, arguments)
    claim = partial(session.claim_task, context.store, arguments)
    return await _claim(context, arguments, claim, f"a task in queue {arguments.queue}")


async def release_task(context: ToolContext, arguments: g.ReleaseTask) -> ReleaseReply:
    """End a session's task, as in release_job. The session stays open, for the next claim_task."""
    return await release_job(context, arguments)


async def save_session(context: ToolContext, arguments: g.SaveSession) -> r.Saved:
    """Save the session's `context`: whatever you need to continue after a restart. It replaces the last one."""
    session = await context.caller.sessions.find(context.store, arguments)
    return r.Saved(session_id=session.session_id, phase=await session.save(arguments.context, arguments.phase))


async def hand_over_session(context: ToolContext, arguments: g.HandOver) -> HandedOverReply:
    """Hand over a session, with its context and the claims bound to it, to another agent.

    Only that agent can accept it, with open_session, within the session's TTL.
    """
    session = await context.caller.sessions.find(context.store, arguments)
    return await session.hand_over(arguments.to_agent, arguments.note)


async def close_session(context: ToolContext, arguments: g.OneSession) -> r.Closed:
    """End a session and release the claims bound to it. Its context stays for the next owner."""
    session = await context.caller.sessions.find(context.store, arguments)
    await session.close()
    return r.Closed(session_id=session.session_id)


# Operating


async def recover_jobs(context: ToolContext, _arguments: g.Nothing) -> r.Recovered:
    """Record every expiry now, and list the recovered jobs, with the evidence. Rarely needed."""
    return r.Recovered(recovered=await context.store.recover())


async def dead_jobs(context: ToolContext, arguments: g.DeadListing) -> JobPage:
    """Jobs that are out of attempts or cancelled, and need a person."""
    return await _page(context, arguments, "dead")


async def requeue_job(context: ToolContext, arguments: g.Operation) -> JobView:
    """Run a dead or done job again, with all its attempts. Only if your user asks."""
    return await context.store.requeue(**asdict(arguments))


async def cancel_job(context: ToolContext, arguments: g.Operation) -> JobView:
    """Cancel a job: it runs only if it is requeued. Only if your user asks.

    If it has an owner, the owner is asked to stop first.
    """
    return await context.store.cancel(**asdict(arguments), drain=True)


async def stop_job(context: ToolContext, arguments: g.Operation) -> JobView:
    """Ask a job's owner to stop. It keeps the job until it does. Only if your user asks."""
    await context.store.request_stop(**asdict(arguments))
    return await context.store.get_job(arguments.job_id)


async def force_release_job(context: ToolContext, arguments: g.Operation) -> JobView:
    """Take a job away from its owner, even a live one. Only if your user asks; prefer stop_job."""
    await context.store.force_release(**asdict(arguments))
    return await context.store.get_job(arguments.job_id)


# Shared


def _terms(context: ToolContext, arguments: g.Terms) -> dict[str, Any]:
    return asdict(arguments) | {"owner": context.name_of(arguments.owner)}


async def _claim(
    context: ToolContext, arguments: g.Terms | g.Task, claim: Callable[[], Awaitable[ClaimReply]], what: str
) -> msgspec.Struct:
    check_range("wait", arguments.wait, 0, arguments.WAIT_MAX_SECONDS, " seconds")
    context.claims.check_room()
    asked_at = boottime()
    async with _reporting_the_wait(context, what, arguments.wait):
        reply = await claim()
    if reply.status == "claimed":
        return await context.claims.keep(context.store, reply, asked_at)
    if reply.status == "held" and isinstance(arguments, g.Task):
        return context.claims.has_task(reply)
    return r.claim_result(reply, held_here=context.claims.has(reply))


@asynccontextmanager
async def _reporting_the_wait(context: ToolContext, what: str, wait: float) -> AsyncIterator[None]:
    async def say() -> None:
        waited = FIRST_WORD_SECONDS
        await asyncio.sleep(waited)
        while True:
            await context.notify_progress(min(waited, wait), wait, f"waiting for {what}")
            await asyncio.sleep(PAUSE_SECONDS)
            waited += PAUSE_SECONDS

    saying = asyncio.create_task(say()) if wait else None
    try:
        yield
    finally:
        if saying is not None:
            saying.cancel()


async def _page(context: ToolContext, arguments: g.Listing, status: Status) -> JobPage:
    check_whole("limit", arguments.limit, 1, g.PAGE_MAX)
    return await context.store.list_jobs(**asdict(arguments), status=status)


# The table


class Tool(NamedTuple):
    """Named after its function; the hints are the protocol's."""

    call: Callable[[ToolContext, Any], Awaitable[msgspec.Struct]]
    takes: type[g.Arguments]
    is_reading: bool = False
    is_destructive: bool = False

    @property
    def name(self) -> str:
        return self.call.__name__

    @property
    def description(self) -> str:
        """One line per paragraph."""
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
"""Offered only if the server was started with `--operator` or, over HTTP, the token has the admin scope."""


def tools_for(*, is_operator: bool) -> list[Tool]:
    return [*TOOLS, *OPERATOR_TOOLS] if is_operator else TOOLS
