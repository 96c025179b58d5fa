"""Queues: claim the next job, see what is queued, and set limits."""

from typing import Any

from octostore.server.calls import Call, command_route, question_route
from octostore.server.examples import IN_A_MINUTE, NOW
from octostore.server.http import Response
from octostore.server.routes.jobs import CLAIMED_BUILD, prepare_claim, prepare_within_prefix, respond_to_claim
from octostore.wire.responses import ClaimNextResponse

TAG = "queues"


def _prepare_next(call: Call) -> Any:
    return prepare_claim(call, prefix=call.principal.prefix)


async def _list_queues(call: Call) -> Response:
    return Response(await call.services.queues(call.principal.prefix))


def _respond_changed(call: Call, reply: Any) -> Response:
    call.services.queues.forget()  # the caller probably lists the queues next
    return Response(reply)


IN_QUEUE = {
    "queue": "default",
    "all_done": False,
    "ready": 0,
    "later": 0,
    "available_at": None,
    "claimed": 0,
    "owners": [],
    "dead": 0,
    "done": 0,
    "max_claimed": None,
    "counted_to": 100,
    "oldest_due_at": None,
    "paused": False,
    "pause": None,
}
SOME_LATER = {**IN_QUEUE, "later": 2, "available_at": IN_A_MINUTE, "claimed": 1, "owners": ["agent-7"], "done": 14}

ROUTES = [
    command_route(
        "claim_next",
        prepare=_prepare_next,
        respond=respond_to_claim,
        summary="Claim the next job in a queue",
        description=(
            "Lowest `priority` first, then earliest due, then oldest. If no job can be claimed, the status is `empty`, "
            "and the response shows what the queue contains. If you set `kinds`, then `ready`, `later`, `claimed` and "
            "`all_done` cover only jobs of these kinds."
        ),
        responses={200: ClaimNextResponse},
        codes={404: ("not_found",), 409: ("limit_exceeded", "lease_lost")},
        example={
            "params": {"queue": "default"},
            "body": {"owner": "agent-3", "kinds": ["build"]},
            "first": ["enqueue"],
            "response": CLAIMED_BUILD,
            "other_responses": {"empty": {"job_id": None, "kind": None, "all_done": False, "queue_status": SOME_LATER}},
        },
    ),
    question_route(
        "get_queue",
        prepare=prepare_within_prefix,
        summary="Get the contents of a queue",
        description="Counts stop at 10,000. For a token limited to a prefix, only jobs with that prefix are counted.",
        example={
            "params": {"queue": "default"},
            "first": ["enqueue"],
            "response": {**IN_QUEUE, "ready": 1, "counted_to": 10_000, "oldest_due_at": NOW},
        },
    ),
    question_route(
        "list_queues",
        handler=_list_queues,
        summary="List queues, with their contents and rates",
        description=(
            "The 200 longest queues, those with the most waiting jobs first; `more` is true if there are others. The "
            "counts are at most 10 seconds old; `counted_at` is when they were made. They stop at `counted_to`. "
            "`rates` are counts per `bucket_seconds` since `rates_since`, oldest first: jobs enqueued, "
            "jobs done, and attempts that failed or expired. `last_claim_at` is null if none of the last 50,000 "
            "events is a claim from the queue. For a token limited to a prefix, only jobs with that prefix are "
            "counted, and only their queues are listed."
        ),
        example={
            "first": ["enqueue"],
            "response": {
                "queues": [
                    {
                        **IN_QUEUE,
                        "ready": 1,
                        "counted_to": 10_000,
                        "oldest_due_at": NOW,
                        "last_claim_at": None,
                        "rates": {"enqueued": [0, 1], "done": [0, 0], "failed": [0, 0]},
                    }
                ],
                "more": False,
                "counted_at": NOW,
                "counted_to": 10_000,
                "rates_since": NOW,
                "bucket_seconds": 60,
            },
        },
    ),
    command_route(
        "limit_queue",
        respond=_respond_changed,
        summary="Limit how many jobs of a queue may be claimed at a time",
        description="`max_claimed: 1` makes the queue serial; null removes the limit.",
        example={
            "params": {"queue": "default"},
            "body": {"max_claimed": 1},
            "response": {"queue": "default", "max_claimed": 1, "paused": False, "pause": None},
        },
    ),
    command_route(
        "set_queue",
        respond=_respond_changed,
        summary="Limit, pause or resume a queue",
        description=(
            "Fields you leave out do not change. At most `max_claimed` jobs can be claimed at a time; null removes the "
            "limit. While a queue is `paused`, its jobs cannot be claimed: claiming the next one returns `empty` with "
            "`paused` in `queue_status`, and claiming one by name returns `delayed`. Existing claims continue. "
            "`paused: false` resumes the queue and wakes waiting claims."
        ),
        example={
            "params": {"queue": "default"},
            "body": {"paused": True, "reason": "deploying"},
            "response": {
                "queue": "default",
                "max_claimed": None,
                "paused": True,
                "pause": {"at": NOW, "by": "admin", "reason": "deploying"},
            },
        },
    ),
]
