"""End kept claims: the store first, then the file and the keeper."""

from typing import Any

from octostore.client.store import OctoStore
from octostore.core.errors import LeaseLost, OctoStoreError
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


def release_all(
    store: OctoStore, leases: KeptLeases, owner: str, note: str
) -> dict[str, ReleaseReply | OctoStoreError]:
    """What happened to each job kept for `owner`; no attempt is counted."""
    outcomes: dict[str, ReleaseReply | OctoStoreError] = {}
    for lease in leases.of(owner):
        try:
            outcomes[lease.job_id] = release(store, leases, lease, note=note)
        except OctoStoreError as error:
            outcomes[lease.job_id] = error
    return outcomes
