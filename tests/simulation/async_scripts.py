"""What asyncio clients do: they cancel calls, and repeat them with the same request id."""

import asyncio
from typing import Any

from octostore.core.errors import LeaseLost, Unreachable
from octostore.core.replies import ClaimReply
from octostore.stores.clock import boottime
from tests.simulation.client import Client, OwnClaim
from tests.simulation.scheduler import BOOTED_AT
from tests.simulation.scripts import LOCKS, QUEUES, TTLS, own

TIMEOUTS = (0.001, 0.002, 0.004, 0.02, 0.2, 1.0, 5.0, 30.0)
"""Most replies take a few milliseconds; some calls time out just before that."""


async def claim_with_a_timeout(c: Client) -> None:
    """Give up on a claim, and repeat it."""
    job_id, ttl, request_id = c.pick(LOCKS), c.pick(TTLS), c.new_id()
    wait = c.pick((0.0, 0.0, 5.0, 20.0))

    async def call() -> ClaimReply:
        return await c.async_store.claim_job(job_id, c.name, ttl=ttl, wait=wait, request_id=request_id, again=True)

    claim = await _claim_with_retries(c, f"claim {job_id} wait={wait:g} request={request_id[-8:]}", call, job_id)
    if claim is not None:
        await _keep(c, claim)
        await _release(c, claim, c.pick(("released", "released", "failed")))


async def claim_next_with_a_timeout(c: Client) -> None:
    queue, ttl, request_id = c.pick(QUEUES), c.pick(TTLS), c.new_id()
    wait = c.pick((0.0, 5.0, 20.0))

    async def call() -> ClaimReply:
        return await c.async_store.claim_next(queue, owner=c.name, ttl=ttl, wait=wait, request_id=request_id)

    claim = await _claim_with_retries(c, f"claim next of {queue} wait={wait:g} request={request_id[-8:]}", call, None)
    if claim is not None:
        await _keep(c, claim)
        await _release(c, claim, c.pick(("done", "failed", "released")))


async def _claim_with_retries(c: Client, what: str, call: Any, job_id: str | None) -> OwnClaim | None:
    for _ in range(4):
        asked = c.checks.asking(job_id) if job_id else None
        asked_at, timeout = boottime(), c.pick(TIMEOUTS)
        try:
            with c.doing(f"{what} timeout={timeout:g}", 30):
                reply = await asyncio.wait_for(call(), timeout)
            return own(c, reply, asked, asked_at)
        except TimeoutError:
            c.say(f"gives up on: {what}")
        except Unreachable:
            pass
        except LeaseLost:
            return None
        if c.chance.random() < 0.3:
            await asyncio.sleep(c.chance.uniform(0, 2))
    return None


async def _keep(c: Client, claim: OwnClaim) -> None:
    for _ in range(c.chance.randint(1, 4)):
        await asyncio.sleep(min(claim.authority.remaining() / 2, c.chance.uniform(0.2, 12)))
        if claim.authority.remaining() <= 0:
            return
        try:
            await _write(c, claim)
        except Unreachable:
            continue


async def _write(c: Client, claim: OwnClaim) -> None:
    if c.chance.random() < 0.5:
        claim.number += 1
        number = claim.number
        with c.doing(f"checkpoint {number} of {claim.job_id}"):
            await c.async_store.checkpoint_job(claim.job_id, claim.lease_id, {"n": number})
        c.say(f"gets: checkpoint {number} of {claim.job_id} is saved")
        c.checks.acknowledged_number(c.name, claim.job_id, claim.lease_id, number)
    asked_at = boottime()
    try:
        with c.doing(f"heartbeat {claim.job_id}"):
            reply = await c.async_store.heartbeat_job(claim.job_id, claim.lease_id)
    except LeaseLost:
        claim.belief.drop()
        raise
    claim.authority.renew(asked_at, reply.remaining_ms)
    c.checks.received_expiry(claim.belief, reply.expires_at, asked_at - BOOTED_AT)


async def _release(c: Client, claim: OwnClaim, outcome: Any) -> None:
    claim.belief.drop()
    with c.doing(f"release {claim.job_id} as {outcome}"):
        reply = await c.async_store.release_job(claim.job_id, claim.lease_id, outcome)
    c.say(f"gets: {claim.job_id} {reply.outcome}")
    c.checks.received_release(c.name, reply)


async def hold_async(c: Client) -> None:
    job_id, ttl = c.pick(LOCKS), c.pick(TTLS)
    wait = c.pick((0.0, 10.0, 30.0))
    asked = c.checks.asking(job_id)
    with c.doing(f"hold {job_id} ttl={ttl:g} wait={wait:g}", wait + 300):
        async with c.async_store.hold(job_id, owner=c.name, ttl=ttl, wait=wait, again=True) as claim:
            belief = c.received_claim(claim.reply, asked, claim.remaining)
            try:
                await asyncio.sleep(c.chance.uniform(0.2, 25))
            finally:
                belief.drop()
