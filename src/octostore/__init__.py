"""OctoStore: one owner per job, ownership that anyone can see, and automatic recovery when a worker disappears.

>>> store = octostore.connect()
>>> with store.hold("github-issue-1842") as claim:
...     claim.progress("running tests", percent=40)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from octostore._version import __version__ as __version__  # noqa: I001  # one for each module, not for each name
    from octostore.client.async_connect import connect_async as connect_async
    from octostore.client.async_hold import AsyncHeldClaim as AsyncHeldClaim
    from octostore.client.async_session import AsyncSession as AsyncSession
    from octostore.client.async_store import AsyncOctoStore as AsyncOctoStore
    from octostore.client.connect import connect as connect
    from octostore.client.hold import HeldClaim as HeldClaim
    from octostore.client.session import Session as Session
    from octostore.client.store import OctoStore as OctoStore
    from octostore.client.work import Deferred as Deferred, Failed as Failed
    from octostore.core.claim_replies import ClaimsPage as ClaimsPage, ClaimView as ClaimView, JobClaims as JobClaims
    from octostore.core.errors import (
        AlreadyDone as AlreadyDone,
        Conflict as Conflict,
        Held as Held,
        InvalidInput as InvalidInput,
        LeaseLost as LeaseLost,
        LimitExceeded as LimitExceeded,
        NotAllowed as NotAllowed,
        NotFound as NotFound,
        OctoStoreError as OctoStoreError,
        Unreachable as Unreachable,
    )
    from octostore.core.events import Event as Event
    from octostore.core.health import (
        Health as Health,
        SessionHealth as SessionHealth,
        Threshold as Threshold,
        Thresholds as Thresholds,
    )
    from octostore.core.model import Phase as Phase
    from octostore.core.replies import (
        AttemptView as AttemptView,
        ClaimReply as ClaimReply,
        EnqueueReply as EnqueueReply,
        Figures as Figures,
        HandedOverReply as HandedOverReply,
        HeartbeatReply as HeartbeatReply,
        InFlight as InFlight,
        JobOwner as JobOwner,
        JobPage as JobPage,
        JobView as JobView,
        KeepaliveReply as KeepaliveReply,
        PrincipalView as PrincipalView,
        ProbeReply as ProbeReply,
        PauseView as PauseView,
        QueueFigures as QueueFigures,
        QueueList as QueueList,
        QueueStatus as QueueStatus,
        QueueView as QueueView,
        Recovery as Recovery,
        ReleaseReply as ReleaseReply,
        SavedReply as SavedReply,
        SessionReply as SessionReply,
        SessionView as SessionView,
        TokenView as TokenView,
    )
    from octostore.core.retry import RetryPolicy as RetryPolicy
    from octostore.core.verify import Verification as Verification
    from octostore.wire.responses import NewToken as NewToken

_HOMES = {
    "_version": "__version__",
    "client.async_connect": "connect_async",
    "client.async_hold": "AsyncHeldClaim",
    "client.async_session": "AsyncSession",
    "client.async_store": "AsyncOctoStore",
    "client.connect": "connect",
    "client.hold": "HeldClaim",
    "client.session": "Session",
    "client.store": "OctoStore",
    "client.work": "Deferred Failed",
    "core.claim_replies": "ClaimView ClaimsPage JobClaims",
    "core.errors": "AlreadyDone Conflict Held InvalidInput LeaseLost LimitExceeded NotAllowed NotFound OctoStoreError "
    "Unreachable",
    "core.events": "Event",
    "core.health": "Health SessionHealth Threshold Thresholds",
    "core.model": "Phase",
    "core.replies": "AttemptView ClaimReply EnqueueReply Figures HandedOverReply HeartbeatReply InFlight JobOwner "
    "JobPage JobView KeepaliveReply PauseView PrincipalView ProbeReply QueueFigures QueueList QueueStatus QueueView "
    "Recovery ReleaseReply SavedReply SessionReply SessionView TokenView",
    "core.retry": "RetryPolicy",
    "core.verify": "Verification",
    "wire.responses": "NewToken",
}
"""These names are imported on first use: imports slow down every start, which matters most on the command line."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = list(_HOME_OF)

if not TYPE_CHECKING:  # a type checker would take it as having every name

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
