"""What tools need of "my claims", however these are kept: with a heart in this process, or by a handle over HTTP."""

from typing import Any, Protocol

import msgspec

from octostore.client.async_store import AsyncOctoStore
from octostore.core.errors import OctoStoreError
from octostore.core.model import Outcome
from octostore.core.replies import CheckpointReply, ClaimReply, HeartbeatReply, JobOwner, ReleaseReply
from octostore.mcp.answers import MyClaim
from octostore.mcp.arguments import OneClaim


class NotHeld(OctoStoreError):
    """A write for a job that was not claimed through this server. `holder` is who has it."""

    code = "not_held"

    def __init__(self, job_id: str, holder: JobOwner | None) -> None:
        super().__init__(
            f"job {job_id!r} was not claimed through this server{'; nobody has it' if holder is None else ''}"
        )
        self.holder = holder


class OwnClaim(Protocol):
    """One claim that the agent may write to. Every method raises `LeaseLost` once the claim is over."""

    job_id: str

    async def progress(self, note: str | None, percent: float | None) -> HeartbeatReply: ...

    async def checkpoint(self, data: Any) -> CheckpointReply: ...

    async def release(self, outcome: Outcome = "released", **details: Any) -> ReleaseReply: ...


class OwnClaims(Protocol):
    """All claims of the agent."""

    def check_room(self) -> None:
        """Raises `LimitExceeded`, before anything is claimed."""

    async def keep(self, store: AsyncOctoStore, reply: ClaimReply, asked_at: float) -> msgspec.Struct:
        """Keep a claim that was just made, and return the agent's answer. If this fails, the claim is given back."""

    async def find(self, store: AsyncOctoStore, named: OneClaim) -> OwnClaim:
        """Raises `NotHeld` for a job that the agent has not claimed here."""

    def has(self, seen: ClaimReply | JobOwner) -> bool:
        """Whether this claim, as seen in the store, is kept here."""

    async def views(self, store: AsyncOctoStore) -> list[MyClaim]: ...

    def notices(self) -> list[str]:
        """What the agent has to know and did not ask for. Each is told once."""


class Caller(Protocol):
    """The agent behind a call."""

    @property
    def claims(self) -> OwnClaims: ...

    @property
    def owner(self) -> str | None:
        """Who the agent is, unless it says so itself."""

    async def store(self) -> AsyncOctoStore:
        """Raises `Unreachable` if it cannot be opened; then there are still `claims`, and notices about them."""
