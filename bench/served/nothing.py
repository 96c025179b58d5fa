"""The server with one route more, whose handler answers as if it had claimed, without the store.

Everything around the handler is the same: connection, limits, routing, token, body, JSON, headers, metrics.
"""

import sys
from datetime import UTC, datetime

from octostore.cli.main import main
from octostore.server.calls import Call
from octostore.server.http import Answer
from octostore.server.router import Route
from octostore.server.routes import ROUTES
from octostore.wire.answers import Claimed
from octostore.wire.bodies import ClaimBody

NOW = datetime.now(UTC)


async def claim(call: Call) -> Answer:
    body: ClaimBody = call.body
    answer = Claimed(
        job_id=call.job_id,
        queue=None,
        kind=None,
        lease_id="6a1c6a0e-54b1-4f0c-8a53-0f4ab11a2c0f",
        fencing_token=1_000_000,
        owner=body.owner or call.principal.name,
        principal=call.principal.name,
        metadata=body.metadata,
        attempt=1,
        claimed_at=NOW,
        heartbeat_at=NOW,
        expires_at=NOW,
        ttl=body.ttl_seconds,
        remaining_ms=3_600_000,
        renew_after_ms=1_200_000,
        session_id=None,
        replayed=False,
        payload=None,
        checkpoint=None,
        note=None,
        previous=[],
    )
    return Answer(answer)


ROUTE = Route(
    operation="claim_nothing",
    method="POST",
    path="/nothing/{job_id}/claim",
    handler=claim,
    tag="nothing",
    scope="claim",
    summary="Claim nothing",
    body=ClaimBody,
    answers={200: Claimed},
    example={"params": {"job_id": "github-issue-1842"}, "body": {"owner": "agent-3"}},
)

if __name__ == "__main__":
    ROUTES.append(ROUTE)
    sys.exit(main(sys.argv[1:]))
