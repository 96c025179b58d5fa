"""Jobs: claim, heartbeat, release, inspect, enqueue, and operate."""

from typing import Any

import msgspec

from octostore.core.replies import ClaimReply, EnqueueReply
from octostore.server.calls import Call, command_route, question_route
from octostore.server.examples import NOW
from octostore.server.http import Response
from octostore.stores.ids import new_job_id
from octostore.wire import bodies
from octostore.wire.responses import ClaimResponse, claim_response

DEFAULT_RETRY_MS = 1_000

TAG = "jobs"
JOB = {"job_id": "github-issue-1842"}


def prepare_claim(call: Call, **given: Any) -> Any:
    body: bodies.ClaimBody = call.body
    owner = call.principal.owner if body.owner is None else body.owner
    limit = call.services.max_claims
    # A waiting claim is always checked: the principal's other claims may change meanwhile.
    max_claims = limit.limit if body.wait_seconds else limit.limit_for_next(call.principal.name)
    return call.command(owner=owner, host=call.host, max_claims=max_claims, **given)


def respond_to_claim(call: Call, reply: ClaimReply) -> Response:
    return Response(claim_response(hide_other_jobs(call, reply)))


def hide_other_jobs(call: Call, reply: ClaimReply) -> ClaimReply:
    """Hide when to retry from a limited token: the time may come from a job that it must not see."""
    if not call.principal.prefix or reply.status != "empty":
        return reply
    return msgspec.structs.replace(reply, retry_after_ms=DEFAULT_RETRY_MS)


def prepare_within_prefix(call: Call) -> Any:
    return call.question(prefix=call.principal.prefix)


def _prepare_enqueue(call: Call) -> Any:
    body: bodies.EnqueueBody = call.body
    if body.job_id is None:
        body.job_id = call.principal.prefix + new_job_id()
    return call.command(max_queued=call.services.settings.max_queued)


def _prepare_matching(call: Call) -> Any:
    return call.command(prefix=call.principal.restrict_prefix(call.body.prefix))


def _respond_to_enqueue(_call: Call, reply: EnqueueReply) -> Response:
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
        respond=respond_to_claim,
        summary="Become the only owner of a job",
        description=(
            "`status` is `claimed`, `held`, `done`, `delayed` or `dead`. If the job is held or delayed, "
            "calls with `wait_seconds` wait for it, in order of arrival."
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
        summary="Prove you are alive, and report progress",
        codes={409: ("lease_lost",)},
        example={
            "params": JOB,
            "body": {"lease_id": "$LEASE", "progress": {"note": "running tests", "percent": 40}},
            **CLAIMED,
        },
    ),
    command_route(
        "checkpoint_job",
        summary="Save what the next owner needs to continue",
        codes={409: ("lease_lost",)},
        example={"params": JOB, "body": {"lease_id": "$LEASE", "data": {"step": 3}}, **CLAIMED},
    ),
    command_route(
        "release_job",
        summary="End your claim with an outcome",
        description=(
            "`released`: the job is free again, or back in its queue. `done`: it is finished. `failed`: an enqueued "
            "job is retried, or dead after its last attempt; any other job is free again. `deferred`: it runs later, "
            "and this does not count as an attempt. Repeating the call returns the same response."
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
        summary="Undo a claim or session whose caller stopped waiting",
        description=(
            "For clients that give up on a call in progress. Except in the log and the job's history, it is then as if "
            "the call had never been made. If a caller may rely on the claim or session, for example because a repeat "
            "of the same request got it, nothing changes and `undone` is false."
        ),
        example={"body": {"lease_id": "$LEASE", **JOB}, "response": {"undone": True}, **CLAIMED},
    ),
    question_route(
        "get_job",
        summary="Get a job and its owner",
        description=(
            "A name that was never claimed or enqueued is a free job with `is_known: false`; "
            "`GET /jobs/{job_id}/similar` suggests names."
        ),
        example={"params": JOB, "response": CLAIMED_JOB, **CLAIMED},
    ),
    question_route(
        "find_similar",
        prepare=prepare_within_prefix,
        summary="Find names similar to this one",
        description=(
            "Up to three existing names, best first: names that begin with this one, then the most similar. A token "
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
        summary="List jobs, page by page",
        description=(
            "All conditions must hold. With `owner` or `kind`, one call examines at most 2,000 jobs, so a page may "
            "have fewer jobs than `limit`, or none, and still have a `cursor`."
        ),
        example={
            "query": {"prefix": "github-issue-", "status": "claimed"},
            "response": {"jobs": [CLAIMED_JOB]},
            **CLAIMED,
        },
    ),
    question_route(
        "list_heartbeats",
        summary="List the live claims of these jobs, with their last heartbeats",
        description=(
            "Jobs without a live claim are left out, and so are documents and history. To follow heartbeats, use the "
            "`heartbeats` parameter of `GET /events`."
        ),
        example={
            "query": {"jobs": "github-issue-1842"},
            "first": ["claim_job", "heartbeat_job"],
            "response": {"claims": [{"progress": {"note": "running tests", "percent": 40}}]},
        },
    ),
    question_route(
        "list_claims",
        summary="List recent claims by job, most urgent first",
        description=(
            "Claims that were live at any time in the last `window` seconds: who had the job, since when, how the "
            "claim ended, and who took over. Jobs come in this order, newest first within each group: lost and not "
            "taken over, stuck, late, asked to stop, taken over by a live owner, other live claims, failed, dead, "
            "ended. `more` is true if the list may be incomplete: it covers at most `limit` jobs, the first 2,000 live "
            "claims by name, the last 1,000 losses, and other claims that ended within the last 600 events. To stay up "
            "to date, follow `/events?after=` from `seq`."
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
        respond=_respond_to_enqueue,
        summary="Put a job in a queue",
        description=(
            "If the job is already enqueued (even if it is claimed or dead) or done, nothing changes and the status "
            "is 200."
        ),
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
        summary="Run a dead or finished job again",
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
        summary="Cancel a job, even if it is claimed",
        description=(
            "The job becomes a dead letter, and `requeue` brings it back. If the job is claimed, the claim ends at "
            "once, and the owner's next write gets `lease_lost` with the reason. With `drain`, the owner is asked to "
            "stop instead, and the job is dead when the claim ends, unless it ends with `done`."
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
            "The responses to the owner's heartbeats then contain `stop_requested`, and the log says when the owner "
            "first got it. The owner keeps the job until it ends its claim. Asking again changes nothing."
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
        summary="Discard a dead job for good",
        description="Its name becomes free; its history stays in the log.",
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
        description="The job is free again, or back in its queue, and the owner's next write gets `lease_lost`.",
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
        summary="Run all matching dead jobs again",
        description=(
            "Each call changes one batch of jobs, ordered by name, in one transaction. Repeat the call with the "
            "`after` of the response until it is null; a job that dies again meanwhile is not changed twice. A token "
            "limited to a prefix changes only jobs with that prefix. With `kind`, one call examines at most 500 dead "
            "jobs, and may change fewer than `limit`, or none."
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
        summary="Discard all matching dead jobs for good",
        description="Each call changes one batch, as in `POST /jobs/requeue`.",
        example={
            "body": {"prefix": "build-", "reason": "the branch is gone"},
            "first": ["enqueue", "cancel_job"],
            "response": {"changed": 1, "after": None},
        },
    ),
    command_route(
        "recover",
        summary="Record expired claims now, and return them with the evidence",
        description="Up to 1,000 per call; repeat until `is_complete` is true.",
        example={"response": {"recovered": []}},
    ),
]
