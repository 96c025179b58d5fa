"""Queues: the next job, and how many at once."""

from octostore.core import commands as c
from octostore.core.replies import QueueView
from octostore.server.calls import Call
from octostore.server.http import Answer
from octostore.server.router import Route
from octostore.server.routes.jobs import answer_claim
from octostore.wire import bodies
from octostore.wire.answers import NextAnswer

TAG = "queues"


async def claim_next(call: Call) -> Answer:
    body: bodies.ClaimNextBody = call.body
    principal = call.principal
    limit = call.services.settings.max_claims
    command = body.command(call.request.params["queue"], principal.name, principal.prefix, limit)
    return await answer_claim(call, command, body.wait_seconds)


async def limit_queue(call: Call) -> Answer:
    call.principal.require_everything()
    body: bodies.LimitQueueBody = call.body
    queue = call.request.params["queue"]
    command = c.LimitQueue(queue=queue, max_claimed=body.max_claimed, principal=call.principal.name)
    return Answer(await call.execute(command))


ROUTES = [
    Route(
        method="POST",
        path="/queues/{queue}/claim",
        handler=claim_next,
        tag=TAG,
        scope="claim",
        summary="Claim the job that is first in line",
        description="Lowest `priority` first, then earliest due, then oldest. `empty` if there is none.",
        body=bodies.ClaimNextBody,
        answers={200: NextAnswer},
        codes={404: ("not_found",), 409: ("limit_exceeded", "lease_lost")},
        example={
            "params": {"queue": "default"},
            "body": {"owner": "agent-3", "kinds": ["build"]},
            "first": ["enqueue"],
            "answer": {
                "job_id": "build-3f1c2aa",
                "queue": "default",
                "kind": "build",
                "metadata": None,
                "payload": {"commit": "3f1c2aa"},
            },
            "others": {"empty": {"job_id": None, "kind": None}},
        },
    ),
    Route(
        method="PUT",
        path="/queues/{queue}/limit",
        handler=limit_queue,
        tag=TAG,
        scope="admin",
        summary="Say how many jobs of a queue may be claimed at once",
        description="1 makes it serial; null lifts the limit.",
        body=bodies.LimitQueueBody,
        answers={200: QueueView},
        example={
            "params": {"queue": "default"},
            "body": {"max_claimed": 1},
            "answer": {"queue": "default", "max_claimed": 1},
        },
    ),
]
