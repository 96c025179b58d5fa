"""What an agent can do over HTTP: the same tools. Those about its own claims or sessions take a handle."""

import asyncio
from typing import cast

import msgspec

from octostore.core.errors import InvalidInput, LeaseLost
from octostore.core.model import Scope
from octostore.mcp import tools as t
from octostore.mcp.http import arguments as g
from octostore.mcp.http import results as h
from octostore.mcp.http.claims import HandledClaims
from octostore.mcp.tools import Tool, ToolContext


async def claim_job(context: ToolContext, arguments: g.ClaimJob) -> msgspec.Struct:
    """Become the only owner of a job. Call this before you touch anything the job is about.

    Work on it only if `status` is `claimed`; it is then yours until `expires_at`. Every call with its `handle` renews
    it for `ttl` seconds. Continue from `checkpoint` and `note` if there are any. Otherwise leave it alone: `held`
    (another agent has it; if that agent has died, until `expires_at`), `done`, `delayed` (until `available_at`), `dead`
    (needs a person).
    """
    return await t.claim_job(context, arguments)


async def checkpoint(context: ToolContext, arguments: g.Checkpoint) -> h.SavedCheckpoint:
    """Save what another agent would need to continue the job, like the branch and the finished steps.

    It replaces the last one, and comes with the next claim.
    """
    claim = await _claims(context).named(arguments.handle)
    saved = await claim.checkpoint(arguments.data)
    expires_at = None if claim.beat is None else claim.beat.expires_at
    return h.SavedCheckpoint(job_id=saved.job_id, saved_at=saved.saved_at, expires_at=expires_at)


async def my_claims(context: ToolContext, arguments: g.Handles) -> h.CheckedClaims:
    """Check and renew several of your claims at once. Stop working on any that are `lost`."""
    _claims(context).count(len(arguments.handles))
    return h.CheckedClaims(claims=await asyncio.gather(*(_look_at(context, handle) for handle in arguments.handles)))


async def _look_at(context: ToolContext, handle: str) -> h.ClaimState:
    try:
        claim = await _claims(context).named(handle)
    except InvalidInput as invalid:
        return h.ClaimState(handle=handle, status="invalid", why=str(invalid))
    try:
        beat = await claim.progress(None, None)
    except LeaseLost as lost:
        return h.ClaimState(handle=handle, job_id=claim.job_id, status="lost", why=str(lost), holder=lost.holder)
    return h.ClaimState(handle=handle, job_id=claim.job_id, status="claimed", expires_at=beat.expires_at)


def _claims(context: ToolContext) -> HandledClaims:
    return cast("HandledClaims", context.claims)


# The table

_DIFFERENT = [
    Tool(claim_job, g.ClaimJob),
    Tool(t.claim_next_job, g.ClaimNext),
    Tool(t.report_progress, g.Progress),
    Tool(checkpoint, g.Checkpoint),
    Tool(t.release_job, g.Release),
    Tool(my_claims, g.Handles),
    Tool(t.open_session, g.OpenSession),
    Tool(t.claim_task, g.ClaimTask),
    Tool(t.release_task, g.ReleaseTask),
    Tool(t.save_session, g.SaveSession),
    Tool(t.hand_over_session, g.HandOver),
    Tool(t.close_session, g.BySessionHandle),
]
_BY_NAME = {tool.name: tool for tool in _DIFFERENT}
TOOLS = [_BY_NAME.get(tool.name, tool) for tool in t.TOOLS]


def tools_for(scopes: frozenset[Scope]) -> list[Tool]:
    """Those that a token with these scopes may use."""
    if "admin" in scopes:
        return [*TOOLS, *t.OPERATOR_TOOLS]
    return [tool for tool in TOOLS if ("read" if tool.is_reading else "claim") in scopes]
