"""An owner that has lost a job can no longer change it, so it cannot harm its successor."""

from collections.abc import Callable

import pytest

from octostore import LeaseLost, OctoStore
from tests.conformance.conftest import System

WRITES: dict[str, Callable[[OctoStore, str], object]] = {
    "heartbeat": lambda store, lease: store.heartbeat_job("job", lease, progress="not dead", ttl=600),
    "checkpoint": lambda store, lease: store.checkpoint_job("job", lease, {"step": 1}),
    "released": lambda store, lease: store.release_job("job", lease),
    "done": lambda store, lease: store.release_job("job", lease, outcome="done", result="stale"),
    "failed": lambda store, lease: store.release_job("job", lease, outcome="failed", error="stale"),
    "deferred": lambda store, lease: store.release_job("job", lease, outcome="deferred", retry_after=60),
}


@pytest.mark.parametrize("how", ["expired", "force_released", "released"])
def test_a_stale_owner_cannot_change_its_successors_claim(system: System, how: str) -> None:
    store, other = system.store, system.other
    stale = store.claim_job("job", owner="stale", ttl=30).lease_id or ""
    if how == "expired":
        system.advance(30)
    elif how == "force_released":
        other.force_release("job")
    else:
        store.release_job("job", stale)
    successor = other.claim_job("job", owner="successor", ttl=30)
    assert successor.lease_id is not None
    other.checkpoint_job("job", successor.lease_id, {"step": 7})
    before, events = other.get_job("job"), len(list(other.events()))
    refused = {name for name, write in WRITES.items() if _is_refused(write, store, stale)}
    # Its own release may be repeated; that changes nothing either.
    assert refused == set(WRITES) - ({"released"} if how == "released" else set())
    assert other.get_job("job") == before
    assert len(list(other.events())) == events
    other.heartbeat_job("job", successor.lease_id)
    other.release_job("job", successor.lease_id, outcome="done", result="good")
    assert store.get_job("job").result == "good"


def _is_refused(write: Callable[[OctoStore, str], object], store: OctoStore, lease_id: str) -> bool:
    """Whether the write is refused with an error that names the new owner."""
    try:
        write(store, lease_id)
    except LeaseLost as lost:
        return lost.holder is not None and lost.holder.owner == "successor"
    return False
