"""`OctoStore`: the library's interface."""

import threading
from typing import TYPE_CHECKING

from octostore.client.calls import Calls
from octostore.client.port import Port
from octostore.client.reader import Reader

if TYPE_CHECKING:
    from octostore.client.hold import HeldClaim  # noqa: F401  # below, in quotes


class OctoStore(Calls["HeldClaim", threading.Event], Reader):
    """One owner per job, ownership that anyone can see, and recovery when an owner disappears.

    Get an `OctoStore` from `octostore.connect()`. It is safe to use from many threads, and after `fork()`. Calls are
    safe to repeat: a second call with the same `request_id`, lease or name finds what the first one did.

    Every call raises `InvalidInput` if an argument is invalid (and nothing changes), `Unreachable` if the store does
    not reply, and `NotAllowed` if your token does not permit the call.

    Example:
        >>> store = octostore.connect("memory:")
        >>> with store.hold("nightly-report") as claim:
        ...     claim.fencing_token
        1
    """

    _port: Port

    def __init__(self, port: Port) -> None:
        super().__init__(port)
