"""What tools need of the agent's claims and sessions, whether a heart here keeps them or a handle names them."""

from typing import Any, Protocol

import msgspec

from octostore.client.async_store import AsyncOctoStore
from octostore.core.errors import OctoStoreError
from octostore.core.model import Outcome, Phase
from octostore.core.replies import CheckpointReply, ClaimReply, HandedOverReply, HeartbeatReply, JobOwner, ReleaseReply
from octostore.mcp.answers import MyClaim, Opened
from octostore.mcp.arguments import ClaimTask, OneClaim, OneSession, OpenSession, Task


class NotHeld(OctoStoreError):
    """A write to a job or session that the agent does not have here. `holder` is who has the job."""

    code = "not_held"

    def __init__(self, what: str, holder: JobOwner | None = None) -> None:
        super().__init__(what)
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

    def at_hand(self, reply: ClaimReply) -> msgspec.Struct:
        """The agent's answer if its session has a task already."""

    async def views(self, store: AsyncOctoStore) -> list[MyClaim]: ...


class OwnSession(Protocol):
    """A session that the agent may write to. Every method raises `LeaseLost` once the session is over."""

    session_id: str

    async def claim_task(self, store: AsyncOctoStore, wanted: Task) -> ClaimReply:
        """Its next task, or `held`, about the one that it has."""

    async def save(self, context: Any, phase: Phase | None) -> Phase: ...

    async def hand_over(self, to_agent: str, note: str | None) -> HandedOverReply: ...

    async def close(self) -> None: ...


class OwnSessions(Protocol):
    """All sessions of the agent."""

    async def open(self, store: AsyncOctoStore, agent: str | None, wanted: OpenSession) -> Opened:
        """Raises `Held` while somebody has the session. Claims that come with it are kept from then on."""

    async def find(self, store: AsyncOctoStore, named: OneSession | ClaimTask) -> OwnSession:
        """Raises `NotHeld` for a session that the agent has not opened here."""


class Caller(Protocol):
    """The agent behind a call."""

    @property
    def claims(self) -> OwnClaims: ...

    @property
    def sessions(self) -> OwnSessions: ...

    @property
    def owner(self) -> str | None:
        """Who the agent is, unless it says so itself."""

    async def store(self) -> AsyncOctoStore:
        """Raises `Unreachable` if it cannot be opened; then there are still `claims`, and notices about them."""

    def notices(self) -> list[str]:
        """What the agent has to know and did not ask for. Each is told once."""
