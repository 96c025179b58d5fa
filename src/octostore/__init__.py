"""OctoStore: one owner per job, ownership that anyone can see, and automatic recovery when a worker disappears.

store = octostore.connect()
with store.hold("github-issue-1842") as claim:
    claim.progress("running tests", percent=40)
"""

from octostore._version import __version__
from octostore.client.async_hold import AsyncHeldClaim
from octostore.client.async_session import AsyncSession
from octostore.client.async_store import AsyncOctoStore
from octostore.client.connect import connect, connect_async
from octostore.client.hold import HeldClaim
from octostore.client.session import Session
from octostore.client.store import OctoStore
from octostore.client.work import Deferred
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
from octostore.core.replies import (
    AttemptView,
    ClaimReply,
    EnqueueReply,
    HeartbeatReply,
    JobOwner,
    JobPage,
    JobView,
    QueueView,
    Recovery,
    ReleaseReply,
    SessionView,
    TokenView,
)
from octostore.core.retry import RetryPolicy
from octostore.wire.answers import NewToken

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
    "HeartbeatReply",
    "Held",
    "HeldClaim",
    "InvalidInput",
    "JobOwner",
    "JobPage",
    "JobView",
    "LeaseLost",
    "LimitExceeded",
    "NewToken",
    "NotAllowed",
    "NotFound",
    "OctoStore",
    "OctoStoreError",
    "QueueView",
    "Recovery",
    "ReleaseReply",
    "RetryPolicy",
    "Session",
    "SessionView",
    "TokenView",
    "Unreachable",
    "__version__",
    "connect",
    "connect_async",
]
