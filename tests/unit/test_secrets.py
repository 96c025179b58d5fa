"""Lease ids and request ids are shown to nobody but the caller they were made for."""

import pickle

import pytest

from octostore.core.commands import ClaimJob, HeartbeatJob, OpenSession, ReleaseJob
from octostore.core.errors import Held, InvalidInput, LeaseLost, NotAllowed, Unreachable
from octostore.core.questions import GetJob, GetSession, ListEvents, ListJobs
from tests.support.world import World


def test_no_answer_to_others_and_no_event_has_them(world: World) -> None:
    secrets = ["request-one", "request-two"]
    first = world.do(ClaimJob(job_id="job", owner="ann", request_id="request-one"))
    session = world.do(OpenSession(session_id="s", agent="ann", request_id="request-two"))
    secrets += [first.lease_id or "", session.lease_id]
    answers = [
        world.do(ClaimJob(job_id="job", owner="bob")),
        world.ask(GetJob(job_id="job")),
        world.do(ReleaseJob(job_id="job", lease_id=first.lease_id or "", outcome="done")),
        world.ask(GetJob(job_id="job")),
        world.ask(ListJobs()),
        world.ask(ListEvents()),
        world.ask(GetSession(session_id="s")),
    ]
    for answer in answers:
        for secret in secrets:
            assert secret not in repr(answer)
    log = b"".join(entry.details for entry in world.log()).decode()
    assert not [secret for secret in secrets if secret in log]


def test_printing_what_one_got_does_not_print_the_lease(world: World) -> None:
    reply = world.do(ClaimJob(job_id="job", owner="ann", request_id="secret-request"))
    command = HeartbeatJob(job_id="job", lease_id=reply.lease_id or "")
    assert (reply.lease_id or "") not in repr(reply) + repr(command)
    assert "lease_id=***" in repr(reply)
    with world.backend.reading() as rows:
        stored = rows.jobs["job"]  # type: ignore[attr-defined]  # the memory store's rows
    assert (reply.lease_id or "") not in repr(stored)


def test_errors_travel_between_processes_whole(world: World) -> None:
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
        Unreachable("gone", reason="io"),
    ]
    for error in errors:
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
