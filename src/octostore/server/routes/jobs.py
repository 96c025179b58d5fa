"""Jobs: claim, keep, release, look, enqueue, operate."""

from datetime import timedelta
from typing import Any, cast

import msgspec

from octostore.core import commands as c
from octostore.core import questions as q
from octostore.core.errors import LeaseLost
from octostore.core.model import Status
from octostore.core.replies import (
    CheckpointReply,
    ClaimReply,
    EnqueueReply,
    HeartbeatReply,
    JobPage,
    JobView,
    RecoverReply,
    ReleaseReply,
    UndoReply,
)
from octostore.server.calls import Call, PageQuery
from octostore.server.examples import NOW
from octostore.server.http import Answer
from octostore.server.refusals import bad_token
from octostore.server.router import Route
from octostore.stores.ids import new_job_id
from octostore.wire import bodies
from octostore.wire import fields as f
from octostore.wire.answers import ClaimAnswer, claim_answer

USUAL_RETRY_MS = 1_000

TAG = "jobs"
JOB = {"job_id": "github-issue-1842"}


async def claim_job(call: Call) -> Answer:
    body: bodies.ClaimBody = call.body
    command = body.command(call.job_id, call.principal.name, call.services.settings.max_claims)
    return await answer_claim(call, command, body.wait_seconds)


async def answer_claim(call: Call, command: c.ClaimJob | c.ClaimNext, wait: float) -> Answer:
    return Answer(claim_answer(await claim(call, command, wait)))


async def claim(call: Call, command: c.ClaimJob | c.ClaimNext | c.ClaimTask, wait: float) -> ClaimReply:
    reply: ClaimReply = await call.services.waiting.claim(call.timely(command), wait, call.request)
    if wait and not await call.services.auth.is_current(call.request, call.principal):
        call.services.waiting.undo(command, reply)
        raise bad_token()
    call.services.metrics.count("claims", reply.status)
    if call.principal.prefix and reply.status == "empty":
        reply = _without_others(reply)
    return reply


def _without_others(reply: ClaimReply) -> ClaimReply:
    """When something becomes due may be about jobs that this token must not know of."""
    sooner = timedelta(milliseconds=(reply.retry_after_ms or 0) - USUAL_RETRY_MS)
    at = reply.available_at - sooner if reply.available_at else None
    return msgspec.structs.replace(reply, available_at=at, retry_after_ms=USUAL_RETRY_MS)


async def heartbeat_job(call: Call) -> Answer:
    body: bodies.HeartbeatBody = call.body
    return Answer(await beat(call, body.command(call.job_id, call.principal.name)))


async def beat(call: Call, command: c.HeartbeatJob) -> HeartbeatReply:
    try:
        reply = await call.execute(command)
    except LeaseLost:
        call.services.metrics.count("heartbeats", "lost")
        raise
    call.services.metrics.count("heartbeats", "live")
    return reply


async def checkpoint_job(call: Call) -> Answer:
    body: bodies.CheckpointBody = call.body
    return Answer(await call.execute(body.command(call.job_id, call.principal.name)))


async def release_job(call: Call) -> Answer:
    body: bodies.ReleaseBody = call.body
    reply = await call.execute(body.command(call.job_id, call.principal.name))
    call.services.metrics.count("releases", reply.outcome)
    return Answer(reply)


async def get_job(call: Call) -> Answer:
    return Answer(await call.services.store.ask(q.GetJob(job_id=call.job_id)))


class ListQuery(PageQuery, kw_only=True, forbid_unknown_fields=True):
    status: f.StatusWord | None = None
    queue: f.Queue | None = None
    cursor: f.Cursor | None = None


async def list_jobs(call: Call) -> Answer:
    query: ListQuery = call.query
    question = q.ListJobs(
        prefix=call.principal.narrowed(query.prefix),
        status=cast("Status | None", query.status),  # which the question checks
        queue=query.queue,
        limit=query.limit,
        cursor=query.cursor,
    )
    return Answer(await call.services.store.ask(question))


async def enqueue(call: Call) -> Answer:
    body: bodies.EnqueueBody = call.body
    job_id = call.principal.prefix + new_job_id() if body.job_id is None else body.job_id
    call.principal.require_name(job_id)
    reply = await call.execute(body.command(job_id, call.principal.name))
    return Answer(reply, 201 if reply.created else 200)


async def requeue_job(call: Call) -> Answer:
    body: bodies.RequeueBody = call.body
    return await _operate(call, c.RequeueJob, keep_attempts=body.keep_attempts)


async def discard_job(call: Call) -> Answer:
    return await _operate(call, c.DiscardJob)


async def cancel_job(call: Call) -> Answer:
    return await _operate(call, c.CancelJob)


async def force_release_job(call: Call) -> Answer:
    return await _operate(call, c.ForceReleaseJob)


async def _operate(call: Call, kind: type[Any], **more: Any) -> Answer:
    body: bodies.ReasonBody = call.body
    command = kind(job_id=call.job_id, principal=call.principal.name, reason=body.reason, **more)
    return Answer(await call.execute(command))


async def undo(call: Call) -> Answer:
    body: bodies.UndoBody = call.body
    if body.job_id is not None:
        call.principal.require_name(body.job_id)
    return Answer(await call.execute(body.command(call.principal.name)))


async def recover(call: Call) -> Answer:
    call.principal.require_everything()
    return Answer(await call.execute(c.Recover(principal=call.principal.name)))


CLAIMED = {"first": ["claim_job"]}
CLAIMED_JOB: dict[str, Any] = {
    "status": "claimed",
    "claim": {},
    "priority": None,
    "max_attempts": None,
    "available_at": None,
}
FREE = {"status": "free", "owner": None, "priority": None, "max_attempts": None, "available_at": NOW}
BUILD = {
    "job_id": "build-3f1c2aa",
    "queue": "default",
    "kind": "build",
    "owner": None,
    "payload": {"commit": "3f1c2aa"},
}

ROUTES = [
    Route(
        method="POST",
        path="/jobs/{job_id}/claim",
        handler=claim_job,
        tag=TAG,
        scope="claim",
        summary="Become the one owner of a job",
        description=(
            "`status` tells whether it worked: `claimed`, or `held`, `done`, `delayed`, `dead`. With `wait_seconds` a "
            "job that cannot be had at once is waited for, in the order of arrival."
        ),
        body=bodies.ClaimBody,
        answers={200: ClaimAnswer},
        codes={404: ("not_found",), 409: ("limit_exceeded", "lease_lost")},
        example={
            "params": JOB,
            "body": {"owner": "agent-3", "metadata": {"branch": "fix-1842"}, "ttl_seconds": 120},
            "others": {
                "held": {"progress": {"note": "running tests", "percent": 40}},
                "done": {"result": {"pr": 77}, "previous": [{"how": "done"}]},
                "delayed": {"error": "tests failed", "previous": [{"how": "failed", "error": "tests failed"}]},
                "dead": {"error": "tests failed", "previous": [{"how": "failed", "error": "tests failed"}]},
            },
        },
    ),
    Route(
        method="POST",
        path="/jobs/{job_id}/heartbeat",
        handler=heartbeat_job,
        tag=TAG,
        scope="claim",
        summary="Prove you are alive, and say what is being done",
        body=bodies.HeartbeatBody,
        answers={200: HeartbeatReply},
        codes={409: ("lease_lost",)},
        example={
            "params": JOB,
            "body": {"lease_id": "$LEASE", "progress": {"note": "running tests", "percent": 40}},
            **CLAIMED,
        },
    ),
    Route(
        method="POST",
        path="/jobs/{job_id}/checkpoint",
        handler=checkpoint_job,
        tag=TAG,
        scope="claim",
        summary="Leave what a successor needs to go on from here",
        body=bodies.CheckpointBody,
        answers={200: CheckpointReply},
        codes={409: ("lease_lost",)},
        example={"params": JOB, "body": {"lease_id": "$LEASE", "data": {"step": 3}}, **CLAIMED},
    ),
    Route(
        method="POST",
        path="/jobs/{job_id}/release",
        handler=release_job,
        tag=TAG,
        scope="claim",
        summary="End one's claim, and say how it went",
        description=(
            "`released`: free again. `done`: finished. `failed`: retried, if it was enqueued. `deferred`: later, and "
            "not an attempt. The same call again gets the same answer."
        ),
        body=bodies.ReleaseBody,
        answers={200: ReleaseReply},
        codes={409: ("lease_lost",)},
        example={
            "params": JOB,
            "body": {"lease_id": "$LEASE", "outcome": "done", "result": {"pr": 77}},
            "answer": {"outcome": "done", "status": "done", "available_at": NOW},
            **CLAIMED,
        },
    ),
    Route(
        method="POST",
        path="/undo",
        handler=undo,
        tag=TAG,
        scope="claim",
        summary="Take back a claim or session whose caller stopped waiting",
        description=(
            "For clients that give up on a call that was under way. It is as if the call had never been made, unless "
            "the same request was answered again since: then `undone` is false, and whoever got that answer has it."
        ),
        body=bodies.UndoBody,
        answers={200: UndoReply},
        example={"body": {"lease_id": "$LEASE", **JOB}, "answer": {"undone": True}, **CLAIMED},
    ),
    Route(
        method="GET",
        path="/jobs/{job_id}",
        handler=get_job,
        tag=TAG,
        summary="How a job stands, and who has it",
        description="A name that was never seen is a free job.",
        answers={200: JobView},
        example={"params": JOB, "answer": CLAIMED_JOB, **CLAIMED},
    ),
    Route(
        method="GET",
        path="/jobs",
        handler=list_jobs,
        tag=TAG,
        summary="Jobs by name, a page at a time",
        query=ListQuery,
        answers={200: JobPage},
        example={
            "query": {"prefix": "github-issue-", "status": "claimed"},
            "answer": {"jobs": [CLAIMED_JOB]},
            **CLAIMED,
        },
    ),
    Route(
        method="POST",
        path="/jobs",
        handler=enqueue,
        tag=TAG,
        scope="claim",
        summary="Put a job in a queue",
        description="Where a job of that name is in a queue already, nothing changes, and the answer is 200.",
        body=bodies.EnqueueBody,
        answers={201: EnqueueReply, 200: EnqueueReply},
        example={
            "body": {"kind": "build", "payload": {"commit": "3f1c2aa"}, "job_id": "build-3f1c2aa"},
            "answer": {
                "job_id": "build-3f1c2aa",
                "status": "queued",
                "queue": "default",
                "kind": "build",
                "available_at": NOW,
            },
            "others": {"200": {"created": False}},
        },
    ),
    Route(
        method="POST",
        path="/jobs/{job_id}/requeue",
        handler=requeue_job,
        tag=TAG,
        scope="admin",
        summary="Let a dead or done job run again",
        body=bodies.RequeueBody,
        answers={200: JobView},
        codes={404: ("not_found",), 409: ("conflict",)},
        example={
            "params": {"job_id": "build-3f1c2aa"},
            "body": {"reason": "fixed"},
            "first": ["enqueue", "cancel_job"],
            "answer": {
                **BUILD,
                "status": "queued",
                "available_at": NOW,
                "last_outcome": "cancelled",
                "error": "not needed",
            },
        },
    ),
    Route(
        method="POST",
        path="/jobs/{job_id}/cancel",
        handler=cancel_job,
        tag=TAG,
        scope="admin",
        summary="Take a job that waits out of its queue",
        body=bodies.ReasonBody,
        answers={200: JobView},
        codes={404: ("not_found",), 409: ("conflict",)},
        example={
            "params": {"job_id": "build-3f1c2aa"},
            "body": {"reason": "not needed"},
            "first": ["enqueue"],
            "answer": {
                **BUILD,
                "status": "dead",
                "available_at": None,
                "last_outcome": "cancelled",
                "error": "not needed",
            },
        },
    ),
    Route(
        method="POST",
        path="/jobs/{job_id}/discard",
        handler=discard_job,
        tag=TAG,
        scope="admin",
        summary="Give a dead job up for good",
        description="Its name is free then, and its story stays in the log.",
        body=bodies.ReasonBody,
        answers={200: JobView},
        codes={404: ("not_found",), 409: ("conflict",)},
        example={
            "params": {"job_id": "build-3f1c2aa"},
            "body": {"reason": "the branch is gone"},
            "first": ["enqueue", "cancel_job"],
            "answer": {
                **FREE,
                "job_id": "build-3f1c2aa",
                "queue": None,
                "last_outcome": "discarded",
                "error": "the branch is gone",
            },
        },
    ),
    Route(
        method="POST",
        path="/jobs/{job_id}/force-release",
        handler=force_release_job,
        tag=TAG,
        scope="admin",
        summary="Take a job away from its owner",
        body=bodies.ReasonBody,
        answers={200: JobView},
        codes={404: ("not_found",)},
        example={
            "params": JOB,
            "body": {"reason": "the worker is stuck"},
            "answer": {
                **FREE,
                "last_outcome": "force_released",
                "previous": [{"how": "force_released", "ended_at": NOW, "reason": "the worker is stuck"}],
            },
            **CLAIMED,
        },
    ),
    Route(
        method="POST",
        path="/recover",
        handler=recover,
        tag=TAG,
        scope="admin",
        summary="Write down expiries now, and tell what was taken back, with the evidence",
        description="A thousand at a time; ask again unless `is_complete`.",
        answers={200: RecoverReply},
        example={"answer": {"recovered": []}},
    ),
]
