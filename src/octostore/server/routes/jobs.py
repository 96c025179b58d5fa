"""Jobs: claim, keep, release, look, enqueue, operate."""

from typing import Any

import msgspec

from octostore.core.replies import ClaimReply, EnqueueReply
from octostore.server.calls import Call, command_route, question_route
from octostore.server.examples import NOW
from octostore.server.http import Response
from octostore.stores.ids import new_job_id
from octostore.wire import bodies
from octostore.wire.responses import ClaimResponse, claim_response

USUAL_RETRY_MS = 1_000

TAG = "jobs"
JOB = {"job_id": "github-issue-1842"}


def prepare_claim(call: Call, **given: Any) -> Any:
    body: bodies.ClaimBody = call.body
    owner = call.principal.name if body.owner is None else body.owner
    limit = call.services.max_claims
    # Nobody knows how many it has by the time it has waited.
    max_claims = limit.limit if body.wait_seconds else limit.next(call.principal.name)
    return call.command(owner=owner, host=call.host, max_claims=max_claims, **given)


def answer_claim(call: Call, reply: ClaimReply) -> Response:
    return Response(claim_response(hide_other_jobs(call, reply)))


def hide_other_jobs(call: Call, reply: ClaimReply) -> ClaimReply:
    """When to look again may be about jobs that this token must not know of. All else is about its own."""
    if not call.principal.prefix or reply.status != "empty":
        return reply
    return msgspec.structs.replace(reply, retry_after_ms=USUAL_RETRY_MS)


def _prepare_similar(call: Call) -> Any:
    return call.question(prefix=call.principal.prefix)


def _prepare_enqueue(call: Call) -> Any:
    body: bodies.EnqueueBody = call.body
    if body.job_id is None:
        body.job_id = call.principal.prefix + new_job_id()
    return call.command(max_queued=call.services.settings.max_queued)


def _prepare_matching(call: Call) -> Any:
    return call.command(prefix=call.principal.restrict_prefix(call.body.prefix))


def _answer_enqueue(_call: Call, reply: EnqueueReply) -> Response:
    return Response(reply, 201 if reply.created else 200)


CLAIMED = {"first": ["claim_job"]}
CLAIMED_JOB: dict[str, Any] = {
    "status": "claimed",
    "claim": {},
    "priority": None,
    "max_attempts": None,
    "available_at": None,
}
STOP = {
    "reason": "the branch is gone",
    "requested_at": NOW,
    "requested_by": "admin",
    "cancels": False,
    "delivered_at": None,
}
FREE = {"status": "free", "owner": None, "priority": None, "max_attempts": None, "available_at": NOW}
BUILD = {"job_id": "build-3f1c2aa", "queue": "default", "kind": "build"}
CLAIMED_BUILD = {**BUILD, "metadata": None, "payload": {"commit": "3f1c2aa"}}
FREE_BUILD = {**BUILD, "owner": None, "payload": {"commit": "3f1c2aa"}}

LIVE_CLAIM: dict[str, Any] = {
    "ended_at": None,
    "how": None,
    "reason": None,
    "note": None,
    "took_over_from": None,
    "late": False,
    "progress": None,
    "stop_requested": None,
}
CLAIMS = {
    "since": "2026-07-01T09:45:00Z",
    "rows": [{"status": "claimed", "attention": None, "claims": [LIVE_CLAIM], "more": False}],
    "more": False,
    "last_claim_at": NOW,
}

ROUTES = [
    command_route(
        "claim_job",
        prepare=prepare_claim,
        respond=answer_claim,
        summary="Become the one owner of a job",
        description=(
            "`status` tells whether it worked: `claimed`, or `held`, `done`, `delayed`, `dead`. With `wait_seconds` a "
            "job that cannot be had at once is waited for, in the order of arrival."
        ),
        responses={200: ClaimResponse},
        codes={404: ("not_found",), 409: ("limit_exceeded", "lease_lost")},
        example={
            "params": JOB,
            "body": {"owner": "agent-3", "metadata": {"branch": "fix-1842"}, "ttl_seconds": 120},
            "other_responses": {
                "held": {"progress": {"note": "running tests", "percent": 40}, "stuck": False},
                "done": {"result": {"pr": 77}, "previous": [{"how": "done"}]},
                "delayed": {"error": "tests failed", "previous": [{"how": "failed", "error": "tests failed"}]},
                "dead": {"error": "tests failed", "previous": [{"how": "failed", "error": "tests failed"}]},
            },
        },
    ),
    command_route(
        "heartbeat_job",
        summary="Prove you are alive, and say what is being done",
        codes={409: ("lease_lost",)},
        example={
            "params": JOB,
            "body": {"lease_id": "$LEASE", "progress": {"note": "running tests", "percent": 40}},
            **CLAIMED,
        },
    ),
    command_route(
        "checkpoint_job",
        summary="Leave what a successor needs to go on from here",
        codes={409: ("lease_lost",)},
        example={"params": JOB, "body": {"lease_id": "$LEASE", "data": {"step": 3}}, **CLAIMED},
    ),
    command_route(
        "release_job",
        summary="End one's claim, and say how it went",
        description=(
            "`released`: free again. `done`: finished. `failed`: retried, if it was enqueued. `deferred`: later, and "
            "not an attempt. The same call again gets the same answer."
        ),
        codes={409: ("lease_lost",)},
        example={
            "params": JOB,
            "body": {"lease_id": "$LEASE", "outcome": "done", "result": {"pr": 77}},
            "response": {"outcome": "done", "status": "done", "available_at": NOW},
            **CLAIMED,
        },
    ),
    command_route(
        "undo",
        summary="Take back a claim or session whose caller stopped waiting",
        description=(
            "For clients that give up on a call that was under way. It is as if the call had never been made, unless "
            "the same request was answered again since: then `undone` is false, and whoever got that answer has it."
        ),
        example={"body": {"lease_id": "$LEASE", **JOB}, "response": {"undone": True}, **CLAIMED},
    ),
    question_route(
        "get_job",
        summary="How a job stands, and who has it",
        description=(
            "A name that nobody has ever claimed or enqueued is a free job with `is_known: false`; "
            "`GET /jobs/{job_id}/similar` says which one may have been meant."
        ),
        example={"params": JOB, "response": CLAIMED_JOB, **CLAIMED},
    ),
    question_route(
        "find_similar",
        prepare=_prepare_similar,
        summary="Which names are like this one",
        description=(
            "Up to three existing names, best first: those that begin with it, then the most alike. A token that is "
            "limited to a prefix gets only names with that prefix."
        ),
        example={
            "params": {"job_id": "github-issue-184"},
            "response": {"job_id": "github-issue-184", "is_known": False, "similar": ["github-issue-1842"]},
            **CLAIMED,
        },
    ),
    question_route(
        "list_jobs",
        summary="Jobs by name, a page at a time",
        description=(
            "All that is given must hold. With `owner` or `kind`, a page may have fewer jobs than the `limit`, or "
            "none, and a `cursor` all the same: at most 2,000 are looked through for it."
        ),
        example={
            "query": {"prefix": "github-issue-", "status": "claimed"},
            "response": {"jobs": [CLAIMED_JOB]},
            **CLAIMED,
        },
    ),
    question_route(
        "list_heartbeats",
        summary="Which of these jobs have a live owner, and since when",
        description=(
            "The live claims on up to 200 jobs, without documents and history; a job that nobody has is left out. To "
            "follow them, use `heartbeats` of `GET /events`."
        ),
        example={
            "query": {"jobs": "github-issue-1842"},
            "first": ["claim_job", "heartbeat_job"],
            "response": {"claims": [{"progress": {"note": "running tests", "percent": 40}}]},
        },
    ),
    question_route(
        "list_claims",
        summary="Claims of the last minutes, by job, the most urgent first",
        description=(
            "Claims that were live at some time in the last `window` seconds: who had a job, since when, how that "
            "ended, and who took over. Jobs come in this order: lost and not taken up, stuck, late, asked to stop, "
            "taken over by a live owner, other live ones, failed, dead, and those that have ended; each newest first. "
            "`more` says that some may be left out: jobs beyond the `limit`, live claims beyond the first 2,000 by "
            "name, losses before the last 1,000, and other ends before the last 600 events. To keep up, follow "
            "`/events?after=` from `seq`."
        ),
        example={
            "query": {"window": "900", "prefix": "github-issue-"},
            "response": CLAIMS,
            **CLAIMED,
        },
    ),
    command_route(
        "enqueue",
        prepare=_prepare_enqueue,
        respond=_answer_enqueue,
        summary="Put a job in a queue",
        description="Where a job of that name is in a queue already, nothing changes, and the answer is 200.",
        responses={201: EnqueueReply, 200: EnqueueReply},
        codes={409: ("limit_exceeded",)},
        example={
            "body": {"kind": "build", "payload": {"commit": "3f1c2aa"}, "job_id": "build-3f1c2aa"},
            "response": {**BUILD, "status": "queued", "available_at": NOW},
            "other_responses": {"200": {"created": False}},
        },
    ),
    command_route(
        "requeue_job",
        summary="Let a dead or done job run again",
        codes={404: ("not_found",), 409: ("conflict",)},
        example={
            "params": {"job_id": "build-3f1c2aa"},
            "body": {"reason": "fixed"},
            "first": ["enqueue", "cancel_job"],
            "response": {
                **FREE_BUILD,
                "status": "queued",
                "available_at": NOW,
                "last_outcome": "cancelled",
                "error": "not needed",
            },
        },
    ),
    command_route(
        "cancel_job",
        summary="Take a job out of its queue, and away from its owner",
        description=(
            "It is dead then, and `requeue` brings it back. If somebody has it, that claim ends in the same step, and "
            "the owner's next write gets `lease_lost` with the reason. With `drain` the owner is asked to stop "
            "instead, and the job is dead when its claim ends, unless it is done then."
        ),
        codes={404: ("not_found",), 409: ("conflict",)},
        example={
            "params": {"job_id": "build-3f1c2aa"},
            "body": {"reason": "not needed"},
            "first": ["enqueue"],
            "response": {
                **FREE_BUILD,
                "status": "dead",
                "available_at": None,
                "last_outcome": "cancelled",
                "error": "not needed",
            },
        },
    ),
    command_route(
        "request_stop",
        summary="Ask the owner of a job to stop",
        description=(
            "The answers to its heartbeats have `stop_requested` from then on, and the log says when it was told. The "
            "job stays its own until it ends its claim. Asking again changes nothing."
        ),
        codes={404: ("not_found",), 409: ("conflict",)},
        example={
            "params": JOB,
            "body": {"reason": "the branch is gone"},
            "response": {**CLAIMED_JOB, "claim": {"stop_requested": STOP}},
            **CLAIMED,
        },
    ),
    command_route(
        "discard_job",
        summary="Give a dead job up for good",
        description="Its name is free then, and its story stays in the log.",
        codes={404: ("not_found",), 409: ("conflict",)},
        example={
            "params": {"job_id": "build-3f1c2aa"},
            "body": {"reason": "the branch is gone"},
            "first": ["enqueue", "cancel_job"],
            "response": {
                **FREE,
                "job_id": "build-3f1c2aa",
                "queue": None,
                "last_outcome": "discarded",
                "error": "the branch is gone",
            },
        },
    ),
    command_route(
        "force_release_job",
        summary="Take a job away from its owner",
        codes={404: ("not_found",)},
        example={
            "params": JOB,
            "body": {"reason": "the worker is stuck"},
            "response": {
                **FREE,
                "last_outcome": "force_released",
                "previous": [{"how": "force_released", "ended_at": NOW, "reason": "the worker is stuck"}],
            },
            **CLAIMED,
        },
    ),
    command_route(
        "requeue_matching",
        prepare=_prepare_matching,
        summary="Let all dead jobs that match run again",
        description=(
            "One batch of them, in one transaction, in the order of their names. Call again with the `after` of the "
            "answer until it is null; a job that has died again by then is not changed twice. A token that is limited "
            "to a prefix changes only jobs with that prefix. If `kind` is given, one call looks through 500 dead jobs, "
            "and may change fewer than `limit`, or none."
        ),
        example={
            "body": {"queue": "default", "reason": "the disk was full"},
            "first": ["enqueue", "cancel_job"],
            "response": {"changed": 1, "after": None},
        },
    ),
    command_route(
        "discard_matching",
        prepare=_prepare_matching,
        summary="Give all dead jobs that match up for good",
        description="Batch by batch, as `POST /jobs/requeue` does it.",
        example={
            "body": {"prefix": "build-", "reason": "the branch is gone"},
            "first": ["enqueue", "cancel_job"],
            "response": {"changed": 1, "after": None},
        },
    ),
    command_route(
        "recover",
        summary="Write down expiries now, and tell what was taken back, with the evidence",
        description="A thousand at a time; ask again unless `is_complete`.",
        example={"response": {"recovered": []}},
    ),
]
