"""What an agent can do: each tool is a function, and its docstring is what the model reads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from octostore.client.async_store import AsyncOctoStore
from octostore.core.events import Event
from octostore.core.limits import check_range, check_whole
from octostore.core.model import Status
from octostore.core.replies import CheckpointReply, ClaimReply, EnqueueReply, EventPage, JobPage, JobView, ReleaseReply
from octostore.mcp import answers as a
from octostore.mcp import arguments as g
from octostore.mcp.own import OwnClaims
from octostore.stores.clock import boottime

FIRST_WORD_SECONDS, PAUSE_SECONDS = 1.0, 5.0
"""When a waiting claim says first that it waits, and how often from then on."""


class Desk(NamedTuple):
    """What a call works with."""

    store: AsyncOctoStore
    claims: OwnClaims
    owner: str | None
    """Who the agent is, unless it says so itself."""
    tell_progress: Callable[[float, float, str], Awaitable[None]]
    """Of the call: how much there is, of how much, in words."""


# Owning


async def claim_job(desk: Desk, given: g.ClaimJob) -> msgspec.Struct:
    """Become the one owner of a job, before you touch anything that belongs to it.

    `status` says how it went. `claimed`: it is yours, with `attempt`, `payload`, the `checkpoint` and `note` that an
    earlier owner left, and in `previous` what became of earlier attempts. The claim is kept alive for you until you
    call release_job. Any other status means that you must not work on it: `held` (somebody else has it, and is alive),
    `done` (it is finished, with its `result`), `delayed` (not before `available_at`), `dead` (out of attempts).
    """
    return await _claim(desk, desk.store.claim_job, given, given.job_id)


async def claim_next_job(desk: Desk, given: g.ClaimNext) -> msgspec.Struct:
    """Claim the job that is first in line in a queue, to work on it.

    `claimed` is as in claim_job; what is to be done is in `kind` and `payload`. `empty` means that there is no work
    now, which is no error. With `wait`, a job that comes within that time is yours.
    """
    return await _claim(desk, desk.store.claim_next, given, f"a job of queue {given.queue}")


async def report_progress(desk: Desk, given: g.Progress) -> a.Kept:
    """Say what you are doing on a job that you hold, and how far you are, for people and other agents to see.

    Call it at every step that somebody may want to know of. It also tells you whether the job is still yours.
    """
    claim = await desk.claims.find(desk.store, given)
    return _still_yours(await claim.progress(given.note, given.percent))


async def checkpoint(desk: Desk, given: g.Checkpoint) -> CheckpointReply:
    """Save what a successor would need to go on from here, such as the branch and the steps that are done.

    The last one counts. It survives the end of your session, and comes with the next claim of the job.
    """
    return await (await desk.claims.find(desk.store, given)).checkpoint(given.data)


async def heartbeat_job(desk: Desk, given: g.OneClaim) -> a.Kept:
    """You do not need this: the server heartbeats by itself for every job that you have claimed.

    Call it only to be sure, before something that cannot be undone, that the job is still yours.
    """
    return _still_yours(await (await desk.claims.find(desk.store, given)).progress(None, None))


async def release_job(desk: Desk, given: g.Release) -> ReleaseReply:
    """End your claim on a job, as soon as you stop working on it, for whatever reason.

    `outcome` says how it went. `done`: finished, with `result`; nobody does it again. `failed`: it did not work, with
    `error`; a job of a queue is tried again later. `deferred`: not now (out of quota, say), again in `retry_after`
    seconds; no attempt is used up. `released`: somebody else, please. The same call again gets the same answer.
    """
    claim = await desk.claims.find(desk.store, given)
    return await claim.release(
        given.outcome, result=given.result, error=given.error, note=given.note, retry_after=given.retry_after
    )


async def my_claims(desk: Desk, _given: g.Nothing) -> a.MyClaims:
    """Which jobs were claimed through this server and not released, and whether they are still yours.

    `lost` means: stop working on it. Agents that share this server see each other's claims here.
    """
    return a.MyClaims(claims=await desk.claims.views(desk.store))


# Looking


async def get_job_owner(desk: Desk, given: g.OneJob) -> a.OwnerAnswer:
    """Who has a job right now, since when, whether alive (`heartbeat_at`), and doing what (`progress`)."""
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
    """All about a job: its status, owner, payload, result, error, and in `previous` how earlier attempts ended.

    A name that nobody has used yet is a free job.
    """
    return await desk.store.get_job(given.job_id)


async def list_claimed_jobs(desk: Desk, given: g.Listing) -> a.ClaimedJobs:
    """Who has what right now: the owners of all claimed jobs, by name, or of those that begin with `prefix`."""
    return a.claimed_jobs(await _page(desk, given, "claimed"))


async def read_events(desk: Desk, given: g.Events) -> EventPage:
    """What happened, from the append-only log, oldest first: of one job, of those that begin with `prefix`, or of all.

    Use it to explain who had a job before and why it was taken away. `after` of the answer continues.
    """
    check_whole("limit", given.limit, 1, g.PAGE_MAX)
    events: list[Event] = []
    log: Any = desk.store.events(given.after, job_id=given.job_id, prefix=given.prefix)
    async with aclosing(log):
        async for event in log:
            events.append(event)
            if len(events) == given.limit:
                break
    return EventPage(events=events, after=events[-1].seq if events else given.after)


# Queues and operating


async def enqueue_job(desk: Desk, given: g.Enqueue) -> EnqueueReply:
    """Put a job in a queue, for whichever agent takes it next with claim_next_job. You do not own it by that.

    Give it a `job_id` that says what it is about, such as `review-pr-77`: the same one again changes nothing.
    """
    return await desk.store.enqueue(**asdict(given))


async def recover_jobs(desk: Desk, _given: g.Nothing) -> a.Recovered:
    """Write down every expiry now, and tell which jobs were taken back from owners that disappeared, with the evidence.

    You rarely need this: a job whose owner is gone can be claimed at once anyway.
    """
    return a.Recovered(recovered=await desk.store.recover())


async def dead_jobs(desk: Desk, given: g.DeadListing) -> JobPage:
    """The jobs that are out of attempts or cancelled, and wait for a person. get_job tells what went wrong."""
    return await _page(desk, given, "dead")


async def requeue_job(desk: Desk, given: g.Operation) -> JobView:
    """Let a dead or done job run again, with all its attempts. Only when the person you work for wants that."""
    return await desk.store.requeue(**asdict(given))


async def cancel_job(desk: Desk, given: g.Operation) -> JobView:
    """Take a job out of its queue: nobody will do it. Only when the person you work for wants that.

    If somebody has it, they are asked to stop, and it is cancelled when they have.
    """
    return await desk.store.cancel(**asdict(given), drain=True)


# What they share


def _still_yours(beat: Any) -> a.Kept:
    return a.Kept(job_id=beat.job_id, expires_at=beat.expires_at)


async def _claim(desk: Desk, claim: Callable[..., Awaitable[ClaimReply]], given: g.Terms, what: str) -> msgspec.Struct:
    check_range("wait", given.wait, 0, g.WAIT_MAX_SECONDS, " seconds")
    desk.claims.check_room()
    asked_at = boottime()
    async with _saying_that_it_waits(desk, what, given.wait):
        reply = await claim(**asdict(given) | {"owner": desk.owner if given.owner is None else given.owner})
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


# The table


class Tool(NamedTuple):
    """`name` is that of the function; hints are those of the protocol."""

    title: str
    call: Callable[[Desk, Any], Awaitable[msgspec.Struct]]
    takes: type[g.Arguments]
    answers: Sequence[type[msgspec.Struct]]
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
    Tool("Claim a job", claim_job, g.ClaimJob, a.CLAIM_ANSWERS, is_idempotent=False),
    Tool("Claim the next job of a queue", claim_next_job, g.ClaimNext, a.NEXT_ANSWERS, is_idempotent=False),
    Tool("Report progress", report_progress, g.Progress, [a.Kept]),
    Tool("Save a checkpoint", checkpoint, g.Checkpoint, [CheckpointReply]),
    Tool("Release a job", release_job, g.Release, [ReleaseReply]),
    Tool("Heartbeat (not needed)", heartbeat_job, g.OneClaim, [a.Kept]),
    Tool("My claims", my_claims, g.Nothing, [a.MyClaims], is_reading=True),
    Tool("Who has a job", get_job_owner, g.OneJob, [a.OwnerAnswer], is_reading=True),
    Tool("A job and its story", get_job, g.OneJob, [JobView], is_reading=True),
    Tool("Who has what", list_claimed_jobs, g.Listing, [a.ClaimedJobs], is_reading=True),
    Tool("What happened", read_events, g.Events, [EventPage], is_reading=True),
    Tool("Enqueue a job", enqueue_job, g.Enqueue, [EnqueueReply], is_idempotent=False),
    Tool("Recover jobs of dead owners", recover_jobs, g.Nothing, [a.Recovered]),
    Tool("Dead jobs", dead_jobs, g.DeadListing, [JobPage], is_reading=True),
    Tool("Run a job again", requeue_job, g.Operation, [JobView]),
    Tool("Cancel a job", cancel_job, g.Operation, [JobView], is_destructive=True),
]
BY_NAME = {tool.name: tool for tool in TOOLS}
