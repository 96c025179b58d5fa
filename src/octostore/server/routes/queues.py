"""Queues: the next job, and how many at once."""

from typing import Any

from octostore.server.calls import Call, carried_out
from octostore.server.routes.jobs import CLAIMED_BUILD, answer_claim, prepare_claim
from octostore.wire.answers import NextAnswer

TAG = "queues"


def _prepare_next(call: Call) -> Any:
    return prepare_claim(call, prefix=call.principal.prefix)


ROUTES = [
    carried_out(
        "claim_next",
        prepare=_prepare_next,
        answer=answer_claim,
        summary="Claim the job that is first in line",
        description="Lowest `priority` first, then earliest due, then oldest. `empty` if there is none.",
        answers={200: NextAnswer},
        codes={404: ("not_found",), 409: ("limit_exceeded", "lease_lost")},
        example={
            "params": {"queue": "default"},
            "body": {"owner": "agent-3", "kinds": ["build"]},
            "first": ["enqueue"],
            "answer": CLAIMED_BUILD,
            "others": {"empty": {"job_id": None, "kind": None}},
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
