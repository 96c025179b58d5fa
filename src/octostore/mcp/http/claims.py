"""The claims an agent names in one request. Any call about a claim is a heartbeat."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from octostore.client.async_store import AsyncOctoStore
from octostore.core.commands import CheckpointJob, Command, HeartbeatJob, KeepSessionAlive, ReleaseJob
from octostore.core.encoding import encode_any, encode_json
from octostore.core.model import Outcome
from octostore.core.questions import FindLease
from octostore.core.replies import CheckpointReply, ClaimReply, FoundLease, HeartbeatReply, JobOwner, ReleaseReply
from octostore.mcp import texts
from octostore.mcp.http.arguments import ByHandle
from octostore.mcp.http.handles import Handle, Seals
from octostore.mcp.http.port import ServedPort
from octostore.mcp.http.results import claimed_by_handle, has_task_by_handle
from octostore.mcp.results import MyClaim
from octostore.server.calls import Call
from octostore.server.refusals import too_fast
from octostore.stores.ids import new_lease_id
from octostore.wire.failures import error_from_failure


class HandledClaim:
    def __init__(self, port: ServedPort, handle: Handle, found: FoundLease) -> None:
        self.job_id = handle.name
        self.beat: HeartbeatReply | None = None
        """The store's reply to the last heartbeat."""
        self._port = port
        # A forgotten claim has ended. For a lease that never existed, the store says so too, and who has the job now.
        lease_id = found.lease_id or new_lease_id()
        self._named: dict[str, Any] = {
            "job_id": handle.name,
            "lease_id": lease_id,
            "fencing_token": handle.fencing_token,
        }
        self._heartbeats: list[Command[Any]] = []
        if found.session_id is not None and found.session_lease_id is not None:
            self._heartbeats = [KeepSessionAlive(session_id=found.session_id, lease_id=found.session_lease_id)]

    async def progress(self, note: str | None, percent: float | None) -> HeartbeatReply:
        beat: HeartbeatReply
        (beat,) = await self._do([HeartbeatJob(**self._named, note=note, percent=percent)])
        self.beat = beat
        return beat

    async def checkpoint(self, data: Any) -> CheckpointReply:
        saving = CheckpointJob(**self._named, data=encode_any("checkpoint", data))
        saved: CheckpointReply
        self.beat, saved = await self._do([HeartbeatJob(**self._named), saving])
        return saved

    async def release(self, outcome: Outcome = "released", **details: Any) -> ReleaseReply:
        result = encode_json("result", details.pop("result", None))
        reply: ReleaseReply
        (reply,) = await self._do([ReleaseJob(**self._named, outcome=outcome, result=result, **details)])
        return reply

    async def _do(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """In one transaction, with the heartbeats it also needs."""
        replies = (await self._port.execute_all([*self._heartbeats, *commands]))[len(self._heartbeats) :]
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies


class HandledClaims:
    def __init__(self, call: Call, port: ServedPort) -> None:
        self._call = call
        self._seals = Seals(call, "claim")
        self._port = port
        self._found: list[HandledClaim] = []

    def check_room(self) -> None:
        """The store knows the principal's limit."""

    async def keep(self, _store: AsyncOctoStore, reply: ClaimReply, _asked_at: float) -> msgspec.Struct:
        return claimed_by_handle(reply, self.handle_of(reply.job_id or "", reply.fencing_token or 0))

    def handle_of(self, job_id: str, fencing_token: int) -> str:
        return str(self._seals.give(job_id, str(fencing_token)))

    async def find(self, _store: AsyncOctoStore, named: msgspec.Struct) -> HandledClaim:
        return await self.named(cast("ByHandle", named).handle)

    async def named(self, text: str) -> HandledClaim:
        """Raises `InvalidInput` for another handle. The store says with the first write whether the claim is alive."""
        handle = self._seals.check(text)
        found = await self._call.services.store.ask(FindLease(job_id=handle.name, fencing_token=handle.fencing_token))
        claim = HandledClaim(self._port, handle, found)
        self._found.append(claim)
        return claim

    def count(self, number: int) -> None:
        """A request that renews this many claims counts as this many. Raises `Unreachable` if that is too fast."""
        pause_ms = self._call.services.rates.take(self._call.principal.name, number, taken=1)
        if pause_ms:
            raise error_from_failure(too_fast(pause_ms).failure)

    def has_task(self, reply: ClaimReply) -> msgspec.Struct:
        return has_task_by_handle(reply, self.handle_of(reply.job_id or "", reply.fencing_token or 0))

    def has(self, _seen: ClaimReply | JobOwner) -> bool:
        """Nothing is kept here."""
        return False

    async def views(self, _store: AsyncOctoStore) -> list[MyClaim]:
        """Only the agent knows which of its principal's claims are its own."""
        return []

    def notices(self) -> list[str]:
        beats = [claim.beat for claim in self._found if claim.beat is not None]
        stops = [(beat.job_id, beat.stop_requested) for beat in beats]
        return [texts.stop_text(job_id, stop.reason) for job_id, stop in stops if stop is not None]
