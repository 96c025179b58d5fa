"""The session an agent names in one request. Each call with its handle keeps it and its claims alive."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from octostore.client.async_store import AsyncOctoStore
from octostore.core import commands as c
from octostore.core.encoding import encode_any
from octostore.core.model import Phase
from octostore.core.questions import FindSessionLease
from octostore.core.replies import ClaimReply, HandedOverReply, SavedReply, SessionReply
from octostore.core.session_keys import session_key
from octostore.mcp.arguments import OpenSession, Task
from octostore.mcp.http.arguments import BySessionHandle, ClaimTask
from octostore.mcp.http.claims import HandledClaims
from octostore.mcp.http.handles import Seals
from octostore.mcp.http.port import ServedPort
from octostore.mcp.http.results import OpenedByHandle, opened_by_handle
from octostore.server.calls import Call
from octostore.stores.ids import new_lease_id, new_request_id


class HandledSession:
    def __init__(self, port: ServedPort, session_id: str, lease_id: str, agent: str) -> None:
        self.session_id = session_id
        self._port = port
        self._agent = agent
        self._named: dict[str, Any] = {"session_id": session_id, "lease_id": lease_id}

    async def claim_task(self, store: AsyncOctoStore, wanted: Task) -> ClaimReply:
        await self._do(c.KeepSessionAlive(**self._named))
        return await store.claim_task(
            **self._named,
            agent=self._agent,
            queues=[wanted.queue],
            kinds=wanted.kinds,
            wait=wanted.wait,
            request_id=cast("ClaimTask", wanted).request_id,
        )

    async def save(self, context: Any, phase: Phase | None) -> Phase:
        saving = c.SaveSession(**self._named, context=encode_any("context", context), phase=phase)
        saved: SavedReply = await self._do(c.KeepSessionAlive(**self._named), saving)
        return saved.phase

    async def hand_over(self, to_agent: str, note: str | None) -> HandedOverReply:
        reply: HandedOverReply = await self._do(c.HandOverSession(**self._named, to_agent=to_agent, note=note))
        return reply

    async def close(self) -> None:
        await self._do(c.CloseSession(**self._named))

    async def _do(self, *commands: c.Command[Any]) -> Any:
        """In one transaction; returns the reply to the last command."""
        replies: Sequence[Any] = await self._port.execute_all(commands)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies[-1]


class HandledSessions:
    def __init__(self, call: Call, port: ServedPort, claims: HandledClaims) -> None:
        self._call = call
        self._seals = Seals(call, "session")
        self._port = port
        self._claims = claims

    async def open(self, _store: AsyncOctoStore, agent: str | None, wanted: OpenSession) -> OpenedByHandle:
        command = c.OpenSession(
            session_id=wanted.session_id,
            agent=agent or self._call.principal.owner,
            ttl=wanted.ttl,
            request_id=getattr(wanted, "request_id", None) or new_request_id(),
        )
        reply: SessionReply = await self._port.execute(command)
        handle = self._seals.give(reply.session_id, self._mark_of(reply.lease_id))
        ours = [job for job in reply.in_flight if job.is_ours]
        handles = {job.job_id: self._claims.handle_of(job.job_id, job.fencing_token or 0) for job in ours}
        return opened_by_handle(reply, str(handle), handles)

    async def find(self, _store: AsyncOctoStore, named: msgspec.Struct) -> HandledSession:
        handle = self._seals.check(cast("BySessionHandle", named).handle)
        key = session_key(self._call.principal.name, handle.name)
        found = await self._call.services.store.ask(FindSessionLease(session_id=key))
        is_it = found.lease_id is not None and self._mark_of(found.lease_id) == handle.mark
        # For a session that has ended or was opened again: a lease that never existed, and the store says so.
        lease_id = found.lease_id or "" if is_it else new_lease_id()
        return HandledSession(self._port, handle.name, lease_id, found.agent or self._call.principal.owner)

    def _mark_of(self, lease_id: str) -> str:
        return self._call.services.seal("mark", lease_id)
