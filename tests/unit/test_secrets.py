"""Lease ids and request ids are shown only to the caller they belong to; digests and the store key to nobody."""

import pickle
from pathlib import Path
from traceback import walk_tb

import pytest

import octostore
from octostore.core.commands import (
    AcquireLock,
    AnyCommand,
    ClaimJob,
    CreateToken,
    HeartbeatJob,
    OpenSession,
    ReleaseJob,
    ReleaseLock,
    RevokeToken,
    RotateToken,
)
from octostore.core.errors import Conflict, Held, InvalidInput, LeaseLost, LimitExceeded, NotAllowed, Unreachable
from octostore.core.model import Claim, Job
from octostore.core.questions import (
    FindLease,
    FindToken,
    GetJob,
    GetSession,
    GetStoreKey,
    ListEvents,
    ListJobs,
    ListSessions,
    ListTokens,
)
from octostore.core.working_set import WorkingSet
from tests.support.world import World


def test_the_traceback_of_a_refused_call_does_not_lead_to_other_callers_leases(tmp_path: Path) -> None:
    """Some error reporters show the variables of every frame, and the store's know all that a transaction loaded."""
    with octostore.connect(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.claim_job("job", owner="ann")
        with pytest.raises(LeaseLost) as refused:
            store.heartbeat_job("job", "stale")
    variables = [value for frame, _ in walk_tb(refused.tb) for value in frame.f_locals.values()]
    assert not [value for value in variables if isinstance(value, WorkingSet | Job | Claim)]


def test_no_reply_to_others_and_no_event_has_lease_or_request_ids(world: World) -> None:
    secrets = ["request-one", "request-two"]
    first = world.do(ClaimJob(job_id="job", owner="ann", request_id="request-one"))
    session = world.do(OpenSession(session_id="s", agent="ann", request_id="request-two"))
    secrets += [first.lease_id or "", session.lease_id]
    replies = [
        world.do(ClaimJob(job_id="job", owner="bob")),
        world.ask(GetJob(job_id="job")),
        world.do(ReleaseJob(job_id="job", lease_id=first.lease_id or "", outcome="done")),
        world.ask(GetJob(job_id="job")),
        world.ask(ListJobs()),
        world.ask(ListEvents()),
        world.ask(GetSession(session_id="s")),
        world.ask(ListSessions()),
    ]
    for reply in replies:
        for secret in secrets:
            assert secret not in repr(reply)
    log = b"".join(entry.details for entry in world.log()).decode()
    assert not [secret for secret in secrets if secret in log]


def test_printing_a_reply_does_not_print_the_lease_id(world: World) -> None:
    reply = world.do(ClaimJob(job_id="job", owner="ann", request_id="secret-request"))
    command = HeartbeatJob(job_id="job", lease_id=reply.lease_id or "")
    assert (reply.lease_id or "") not in repr(reply) + repr(command)
    assert "lease_id=***" in repr(reply)
    with world.backend.reading() as rows:
        stored = rows.jobs["job"]  # type: ignore[attr-defined]  # the memory store's rows
    assert (reply.lease_id or "") not in repr(stored)


def test_no_reply_to_others_has_the_lease_id_of_a_lock(world: World) -> None:
    reply = world.do(AcquireLock(job_id="lock", owner="ann", principal="ann"))
    lease_id = reply.lease_id or ""
    shown = [
        world.do(AcquireLock(job_id="lock", owner="bob", principal="bob")),
        world.ask(GetJob(job_id="lock")),
        ReleaseLock(job_id="lock", lease_id=lease_id),
        reply,
        world.do(ReleaseLock(job_id="lock", lease_id=lease_id)),
        world.ask(ListEvents()),
    ]
    assert lease_id not in repr(shown) + repr(world.log())


def test_digests_are_shown_nowhere_and_are_in_no_event(world: World) -> None:
    first, second = b"first-digest".ljust(32, b"x"), b"second-digest".ljust(32, b"x")
    commands: list[AnyCommand] = [
        CreateToken(token_id="t", name="ann", digest=first),
        CreateToken(token_id="t", name="ann", digest=second),
        CreateToken(token_id="u", name="ann", digest=first),
        RotateToken(token_id="t", digest=second),
        RevokeToken(token_id="t"),
        RotateToken(token_id="t", digest=first),
    ]
    question = FindToken(digest=second)
    replies = [*world.batch(commands), world.ask(question), world.ask(ListTokens()), world.ask(ListEvents())]
    with world.backend.reading() as rows:
        stored = [*rows.find_tokens([second]), rows.list_tokens()]
    assert len(stored) == 2
    shown = repr([commands, question, replies, [str(reply) for reply in replies], stored, world.log()])
    assert "token_rotated" in shown
    for digest in (first, second):
        assert digest.decode() not in shown
        assert digest.hex() not in shown
    assert "digest=***" in repr(commands[0])
    assert "digest=***" in repr(question)


def test_a_lease_is_found_by_its_fencing_token_and_not_printed(world: World) -> None:
    first = world.do(ClaimJob(job_id="job", owner="ann"))
    world.do(ReleaseJob(job_id="job", lease_id=first.lease_id or ""))
    second = world.do(ClaimJob(job_id="job", owner="bob"))
    for claim in (first, second):
        found = world.ask(FindLease(job_id="job", fencing_token=claim.fencing_token or 0))
        assert found.lease_id == claim.lease_id
        assert repr(found) == "FoundLease(lease_id=***)"
    assert world.ask(FindLease(job_id="job", fencing_token=1_000)).lease_id is None
    assert world.ask(FindLease(job_id="another", fencing_token=first.fencing_token or 0)).lease_id is None


def test_the_key_of_the_store_is_not_printed(world: World) -> None:
    reply = world.ask(GetStoreKey())
    assert len(reply.key) == 32
    assert repr(reply) == f"StoreKey(key=***, store_id={reply.store_id!r})"
    assert reply == world.ask(GetStoreKey())
    assert reply != World().ask(GetStoreKey())


def test_errors_survive_pickling(world: World) -> None:
    first = world.do(ClaimJob(job_id="job", owner="ann", ttl=1))
    world.advance(1)
    with pytest.raises(LeaseLost) as caught:
        world.do(HeartbeatJob(job_id="job", lease_id=first.lease_id or ""))
    moment = caught.value.ended.ended_at if caught.value.ended else None
    assert moment is not None
    errors = [
        caught.value,
        InvalidInput("ttl", "is wrong", limit=1, size=2),
        Held("job", owner="ann", claimed_at=moment, heartbeat_at=moment, expires_at=moment),
        NotAllowed("no"),
        Conflict("there is another", status="done"),
        LimitExceeded("you have two", limit=2),
        Unreachable("gone", reason="io"),
    ]
    for error in errors:
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
