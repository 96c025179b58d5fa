"""The public names match the contract, and sync and async have the same calls."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import octostore
from octostore import AsyncHeldClaim, AsyncOctoStore, AsyncSession, HeldClaim, OctoStore, Session

CONTRACT = {
    "claim_job": ["job_id", "owner", "metadata", "ttl", "wait", "session_id", "request_id", "again"],
    "heartbeat_job": ["job_id", "lease_id"],
    "get_job_owner": ["job_id"],
    "list_claimed_jobs": ["prefix"],
    "release_job": ["job_id", "lease_id", "outcome", "result", "error", "retry_after"],
    "hold": ["job_id", "ttl", "wait", "session_id", "request_id", "again", "on_lost"],
    "enqueue": ["kind", "payload", "job_id", "queue", "priority", "run_at", "max_attempts"],
    "claim_next": ["queue", "kinds", "owner", "ttl", "wait"],
    "dead_jobs": [],
    "requeue": ["job_id"],
    "cancel": ["job_id"],
    "work": ["queue", "handler"],
    "open_session": ["agent", "ttl", "session_id"],
    "events": ["after", "job_id", "prefix", "follow"],
    "recover": [],
}


@pytest.mark.parametrize("name", CONTRACT)
def test_the_calls_of_the_contract(name: str) -> None:
    parameters = inspect.signature(getattr(OctoStore, name)).parameters
    assert set(CONTRACT[name]) <= set(parameters)
    assert inspect.getdoc(getattr(OctoStore, name))


@pytest.mark.parametrize(
    "name", ["Held", "AlreadyDone", "LeaseLost", "InvalidInput", "NotAllowed", "Unreachable", "Conflict"]
)
def test_the_exceptions_of_the_contract(name: str) -> None:
    assert issubclass(getattr(octostore, name), octostore.OctoStoreError)


def public(cls: type) -> dict[str, Callable[..., Any]]:
    return {name: getattr(cls, name) for name in dir(cls) if callable(getattr(cls, name)) and not name.startswith("_")}


def shape(call: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(call).parameters.values()]


@pytest.mark.parametrize(
    ("sync", "twin"), [(OctoStore, AsyncOctoStore), (HeldClaim, AsyncHeldClaim), (Session, AsyncSession)]
)
def test_the_twins_have_the_same_calls(sync: type, twin: type) -> None:
    assert public(sync).keys() == public(twin).keys()
    for name, call in public(sync).items():
        assert shape(call) == shape(public(twin)[name]), name


def test_defaults_of_the_contract() -> None:
    claim = inspect.signature(OctoStore.claim_job).parameters
    assert (claim["ttl"].default, claim["wait"].default) == (120, 0)
    enqueue = inspect.signature(OctoStore.enqueue).parameters
    assert (enqueue["queue"].default, enqueue["priority"].default, enqueue["max_attempts"].default) == ("default", 5, 5)


def test_everything_exported_exists() -> None:
    assert all(hasattr(octostore, name) for name in octostore.__all__)
