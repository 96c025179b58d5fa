"""Queues: the next job, and how many at once."""

from typing import Any

from octostore.server.calls import Call, asked, carried_out
from octostore.server.examples import IN_A_MINUTE
from octostore.server.routes.jobs import CLAIMED_BUILD, answer_claim, prepare_claim
from octostore.wire.answers import NextAnswer

TAG = "queues"


def _prepare_next(call: Call) -> Any:
    return prepare_claim(call, prefix=call.principal.prefix)


def _prepare_status(call: Call) -> Any:
    return call.question(prefix=call.principal.prefix)


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
}
SOME_LATER = {**IN_QUEUE, "later": 2, "available_at": IN_A_MINUTE, "claimed": 1, "owners": ["agent-7"], "done": 14}

ROUTES = [
    carried_out(
        "claim_next",
        prepare=_prepare_next,
        answer=answer_claim,
        summary="Claim the job that is first in line",
        description=(
            "Lowest `priority` first, then earliest due, then oldest. `empty` if there is none, with what else is in "
            "the queue. With `kinds`, what is `ready`, `later` and `claimed`, and so `all_done`, is about these kinds."
        ),
        answers={200: NextAnswer},
        codes={404: ("not_found",), 409: ("limit_exceeded", "lease_lost")},
        example={
            "params": {"queue": "default"},
            "body": {"owner": "agent-3", "kinds": ["build"]},
            "first": ["enqueue"],
            "answer": CLAIMED_BUILD,
            "others": {"empty": {"job_id": None, "kind": None, "all_done": False, "queue_status": SOME_LATER}},
        },
    ),
    asked(
        "get_queue",
        prepare=_prepare_status,
        summary="Tell what is in a queue",
        description="Counts stop at 10,000. A token limited to a prefix gets what has a name that begins with it.",
        example={
            "params": {"queue": "default"},
            "first": ["enqueue"],
            "answer": {**IN_QUEUE, "ready": 1, "counted_to": 10_000},
        },
    ),
    carried_out(
        "limit_queue",
        summary="Say how many jobs of a queue may be claimed at once",
        description="1 makes it serial; null lifts the limit.",
        example={
            "params": {"queue": "default"},
            "body": {"max_claimed": 1},
            "answer": {"queue": "default", "max_claimed": 1},
        },
    ),
]
