"""End kept claims: the store first, then the file and the keeper."""

from typing import Any

from octostore.client.store import OctoStore
from octostore.core.errors import LeaseLost
from octostore.core.model import Outcome
from octostore.core.replies import ReleaseReply
from octostore.keeping.leases import KeptLease, KeptLeases


def release(
    store: OctoStore, leases: KeptLeases, lease: KeptLease, outcome: Outcome = "released", **details: Any
) -> ReleaseReply:
    """Like `store.release_job`. Afterwards nothing is kept, unless the store was unreachable."""
    try:
        reply = store.release_job(lease.job_id, lease.lease_id, outcome, fencing_token=lease.fencing_token, **details)
    except LeaseLost:
        leases.forget(lease)
        raise
    leases.forget(lease)
    return reply
