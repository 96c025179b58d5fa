"""What tools need from the agent's claims and sessions, whether kept alive here or named by a handle."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import msgspec

from octostore.client.async_store import AsyncOctoStore
from octostore.core.errors import OctoStoreError
from octostore.core.model import Outcome, Phase
from octostore.core.replies import CheckpointReply, ClaimReply, HandedOverReply, HeartbeatReply, JobOwner, ReleaseReply
from octostore.mcp.arguments import ClaimTask, OneClaim, OneSession, OpenSession, Task
from octostore.mcp.results import MyClaim, Opened

Report: TypeAlias = Callable[[str], None]
"""Tells the people who run this process."""


class NotHeld(OctoStoreError):
    """A write to a job or session the agent does not hold here. `holder` is who has the job."""

    code = "not_held"

    def __init__(self, what: str, holder: JobOwner | None = None) -> None:
        super().__init__(what)
        self.holder = holder


class NotSetUp(OctoStoreError):
    """The settings of this process cannot work: only its user can correct them."""

    code = "not_set_up"


class OwnClaim(Protocol):
    """A claim the agent may write to. Every method raises `LeaseLost` once the claim has ended."""

    job_id: str

    async def progress(self, note: str | None, percent: float | None) -> HeartbeatReply: ...

    async def checkpoint(self, data: Any) -> CheckpointReply: ...

    async def release(self, outcome: Outcome = "released", **details: Any) -> ReleaseReply: ...


class OwnClaims(Protocol):
    """All claims of the agent."""

    def check_room(self) -> None:
        """Raises `LimitExceeded`, before anything is claimed."""

    async def keep(self, store: AsyncOctoStore, reply: ClaimReply, asked_at: float) -> msgspec.Struct:
        """Keep a claim that was just made, and return the tool's result. If this fails, the claim is undone."""

    async def find(self, store: AsyncOctoStore, named: OneClaim) -> OwnClaim:
        """Raises `NotHeld` for a job the agent has not claimed here."""

    def has(self, seen: ClaimReply | JobOwner) -> bool:
        """Whether this claim, as the store reports it, is kept here."""

    def has_task(self, reply: ClaimReply) -> msgspec.Struct:
        """The tool's result if the session already has a task."""

    async def views(self, store: AsyncOctoStore) -> list[MyClaim]: ...


class OwnSession(Protocol):
    """A session the agent may write to. Every method raises `LeaseLost` once the session has ended."""

    session_id: str

    async def claim_task(self, store: AsyncOctoStore, wanted: Task) -> ClaimReply:
        """Its next task, or `held` with the one it has."""

    async def save(self, context: Any, phase: Phase | None) -> Phase: ...

    async def hand_over(self, to_agent: str, note: str | None) -> HandedOverReply: ...

    async def close(self) -> None: ...


class OwnSessions(Protocol):
    """All sessions of the agent."""

    async def open(self, store: AsyncOctoStore, agent: str | None, wanted: OpenSession) -> Opened:
        """Raises `Held` while another agent has the session. Claims that come with it are kept alive too."""

    async def find(self, store: AsyncOctoStore, named: OneSession | ClaimTask) -> OwnSession:
        """Raises `NotHeld` for a session the agent has not opened here."""


class Caller(Protocol):
    """The agent behind a call."""

    @property
    def claims(self) -> OwnClaims: ...

    @property
    def sessions(self) -> OwnSessions: ...

    @property
    def owner(self) -> str | None:
        """The agent's default name."""

    async def store(self) -> AsyncOctoStore:
        """Raises `Unreachable` or `NotSetUp` if it cannot be opened; `claims`, and their notices, still work then."""

    def notices(self) -> list[str]:
        """What the agent must know and did not ask for. Each is returned once."""
