"""OctoStore: one owner per job, ownership that anyone can see, and automatic recovery when a worker disappears.

store = octostore.connect()
with store.hold("github-issue-1842") as claim:
    claim.progress("running tests", percent=40)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from octostore._version import __version__
from octostore.client.connect import connect
from octostore.client.hold import HeldClaim
from octostore.client.session import Session
from octostore.client.store import OctoStore
from octostore.client.work import Deferred, Failed
from octostore.core.errors import (
    AlreadyDone,
    Conflict,
    Held,
    InvalidInput,
    LeaseLost,
    LimitExceeded,
    NotAllowed,
    NotFound,
    OctoStoreError,
    Unreachable,
)
from octostore.core.events import Event
from octostore.core.health import Health, SessionHealth, Threshold, Thresholds
from octostore.core.model import Phase
from octostore.core.replies import (
    AttemptView,
    ClaimReply,
    EnqueueReply,
    Figures,
    HandedOverReply,
    HeartbeatReply,
    InFlight,
    JobOwner,
    JobPage,
    JobView,
    KeepaliveReply,
    PrincipalView,
    ProbeReply,
    QueueView,
    Recovery,
    ReleaseReply,
    SavedReply,
    SessionReply,
    SessionView,
    TokenView,
)
from octostore.core.retry import RetryPolicy
from octostore.core.verify import Verification
from octostore.wire.answers import NewToken

if TYPE_CHECKING:
    from octostore.client.async_connect import connect_async
    from octostore.client.async_hold import AsyncHeldClaim
    from octostore.client.async_session import AsyncSession
    from octostore.client.async_store import AsyncOctoStore

__all__ = [
    "AlreadyDone",
    "AsyncHeldClaim",
    "AsyncOctoStore",
    "AsyncSession",
    "AttemptView",
    "ClaimReply",
    "Conflict",
    "Deferred",
    "EnqueueReply",
    "Event",
    "Failed",
    "Figures",
    "HandedOverReply",
    "Health",
    "HeartbeatReply",
    "Held",
    "HeldClaim",
    "InFlight",
    "InvalidInput",
    "JobOwner",
    "JobPage",
    "JobView",
    "KeepaliveReply",
    "LeaseLost",
    "LimitExceeded",
    "NewToken",
    "NotAllowed",
    "NotFound",
    "OctoStore",
    "OctoStoreError",
    "Phase",
    "PrincipalView",
    "ProbeReply",
    "QueueView",
    "Recovery",
    "ReleaseReply",
    "RetryPolicy",
    "SavedReply",
    "Session",
    "SessionHealth",
    "SessionReply",
    "SessionView",
    "Threshold",
    "Thresholds",
    "TokenView",
    "Unreachable",
    "Verification",
    "__version__",
    "connect",
    "connect_async",
]

_IMPORTED_LATER = {
    "AsyncHeldClaim": "octostore.client.async_hold",
    "AsyncOctoStore": "octostore.client.async_store",
    "AsyncSession": "octostore.client.async_session",
    "connect_async": "octostore.client.async_connect",
}
"""At their first use: asyncio takes long to import, and a command line that does not use it should not wait for it."""

if not TYPE_CHECKING:  # to which any name would seem to be there

    def __getattr__(name: str) -> Any:
        if name not in _IMPORTED_LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_IMPORTED_LATER[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_IMPORTED_LATER})
