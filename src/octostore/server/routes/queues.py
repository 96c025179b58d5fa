"""Queues: the next job, what is in them, and how many at once."""

from typing import Any

from octostore.server.calls import Call, command_route, question_route
from octostore.server.examples import IN_A_MINUTE, NOW
from octostore.server.http import Response
from octostore.server.routes.jobs import CLAIMED_BUILD, answer_claim, prepare_claim
from octostore.wire.responses import ClaimNextResponse

TAG = "queues"


def _prepare_next(call: Call) -> Any:
    return prepare_claim(call, prefix=call.principal.prefix)


def _prepare_status(call: Call) -> Any:
    return call.question(prefix=call.principal.prefix)


async def _list_queues(call: Call) -> Response:
    return Response(await call.services.queues(call.principal.prefix))


def _answer_changed(call: Call, reply: Any) -> Response:
    call.services.queues.forget()  # whoever changed it looks next
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
        respond=answer_claim,
        summary="Claim the job that is first in line",
        description=(
            "Lowest `priority` first, then earliest due, then oldest. `empty` if there is none, with what else is in "
            "the queue. With `kinds`, what is `ready`, `later` and `claimed`, and so `all_done`, is about these kinds."
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
        prepare=_prepare_status,
        summary="Tell what is in a queue",
        description="Counts stop at 10,000. A token limited to a prefix gets what has a name that begins with it.",
        example={
            "params": {"queue": "default"},
            "first": ["enqueue"],
            "response": {**IN_QUEUE, "ready": 1, "counted_to": 10_000, "oldest_due_at": NOW},
        },
    ),
    question_route(
        "list_queues",
        handler=_list_queues,
        summary="List the queues, with what is in each and how it goes",
        description=(
            "The 200 longest queues, those with the most jobs waiting first; `more` if there are others. The server "
            "counts at most every 10 seconds, and `counted_at` says when it did; counts stop at `counted_to`. `rates` "
            "are counts for each `bucket_seconds` since `rates_since`, oldest first: jobs enqueued, jobs done, and "
            "attempts that failed or expired. `last_claim_at` is null if none of the last 50,000 events is a claim in "
            "the queue. A token limited to a prefix gets the queues that have jobs whose names begin with it, and "
            "only these jobs count."
        ),
        codes={503: ("unreachable",)},
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
        respond=_answer_changed,
        summary="Say how many jobs of a queue may be claimed at once",
        description="1 makes it serial; null lifts the limit.",
        example={
            "params": {"queue": "default"},
            "body": {"max_claimed": 1},
            "response": {"queue": "default", "max_claimed": 1, "paused": False, "pause": None},
        },
    ),
    command_route(
        "set_queue",
        respond=_answer_changed,
        summary="Change the settings of a queue: its limit, and whether it is paused",
        description=(
            "What is left out stays as it is. At most `max_claimed` jobs can be claimed at once; null lifts the limit. "
            "While a queue is `paused`, none of its jobs can be claimed: the next one is `empty`, with `paused` in its "
            "`queue_status`, and one by name is `delayed`. Claims that exist go on. `paused: false` resumes the queue, "
            "and wakes those who wait."
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
