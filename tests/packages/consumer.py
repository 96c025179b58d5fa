"""Code as users write it: `test_wheel.py` runs `mypy --strict` on it, against the installed wheel."""

import asyncio
from typing import assert_type

import octostore
from octostore.orchestrator import Orchestrator


def work_on(store: octostore.OctoStore) -> int:
    reply = store.claim_job("github-issue-1842", owner="agent-3", metadata={"branch": "fix-1842"}, ttl=120)
    if reply.status == "claimed" and reply.lease_id is not None:
        store.release_job("github-issue-1842", reply.lease_id, outcome="done", result={"pr": 77})
    with store.hold("customer-sync-72", ttl=120) as claim:
        claim.checkpoint({"step": 3})
        return assert_type(claim.fencing_token, int)


async def look() -> str | None:
    async with await octostore.connect_async("memory:") as store:
        owner = await store.get_job_owner("github-issue-1842")
        return None if owner is None else assert_type(owner.owner, str)


if __name__ == "__main__":
    with octostore.connect("memory:") as store:
        work_on(store)
        Orchestrator(store).health()
    asyncio.run(look())
