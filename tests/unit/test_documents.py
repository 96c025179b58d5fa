"""Documents are passed on as written, and decoded only when a program reads the value."""

import copy
import pickle
from typing import Any

import msgspec
import pytest

from octostore.core import commands as c
from octostore.core.documents import written
from octostore.core.questions import GetJob, GetSession
from octostore.core.replies import ClaimReply, InFlight, JobOwner, JobView, SessionReply, SessionView
from octostore.wire.responses import claim_response
from tests.support.world import World

BROKEN = b"{not JSON"
"""Decoding it fails."""


@pytest.fixture
def world() -> World:
    return World()


def claimed(world: World) -> ClaimReply:
    world.do(c.Enqueue(job_id="build", kind="k", queue="q", payload=BROKEN))
    reply = world.do(c.ClaimNext(owner="ann", queue="q", metadata=BROKEN))
    world.do(c.CheckpointJob(job_id="build", lease_id=reply.lease_id or "", data=BROKEN))
    return reply


def test_replies_to_commands_are_not_decoded(world: World) -> None:
    reply = claimed(world)
    assert bytes(reply.raw_payload) == bytes(reply.raw_metadata) == BROKEN
    assert bytes(world.do(c.ClaimJob(job_id="build", owner="bob")).raw_metadata) == BROKEN  # held
    lease_id = reply.lease_id or ""
    world.do(c.ReleaseJob(job_id="build", lease_id=lease_id, outcome="failed", error="no", retry_after=0))
    again = world.do(c.ClaimNext(owner="ann", queue="q"))
    assert bytes(again.raw_checkpoint) == BROKEN
    world.do(c.ReleaseJob(job_id="build", lease_id=again.lease_id or "", outcome="done", result=BROKEN))
    assert bytes(world.do(c.ClaimJob(job_id="build", owner="bob")).raw_result) == BROKEN


def test_replies_to_questions_are_not_decoded(world: World) -> None:
    claimed(world)
    view = world.ask(GetJob(job_id="build"))
    assert view.claim is not None
    assert bytes(view.raw_payload) == bytes(view.claim.raw_metadata) == BROKEN


def test_contexts_are_not_decoded(world: World) -> None:
    lease_id = world.do(c.OpenSession(session_id="s", agent="ann", ttl=60)).lease_id
    world.do(c.SaveSession(session_id="s", lease_id=lease_id, context=BROKEN))
    world.do(c.CloseSession(session_id="s", lease_id=lease_id))
    assert bytes(world.do(c.OpenSession(session_id="s", agent="ann", ttl=60)).raw_context) == BROKEN
    assert bytes(world.ask(GetSession(session_id="s")).raw_context) == BROKEN


def reply_with(payload: bytes | None) -> ClaimReply:
    return ClaimReply(status="claimed", job_id="build", lease_id="secret", raw_payload=written(payload))


@pytest.mark.parametrize(("payload", "value"), [(b'{"a":[1,null]}', {"a": [1, None]}), (b"0", 0), (None, None)])
def test_programs_get_values(payload: bytes | None, value: Any) -> None:
    assert reply_with(payload).payload == value


def test_a_changed_value_stays_changed() -> None:
    reply = reply_with(b'{"a":1}')
    reply.payload["b"] = 2
    assert reply.payload == {"a": 1, "b": 2}


def test_equal_documents_make_equal_replies() -> None:
    assert reply_with(b"[1]") == reply_with(b"[1]") != reply_with(b"[2]")


def test_a_repr_shows_values_and_no_secrets() -> None:
    assert repr(reply_with(b'{"a":1}')).startswith("ClaimReply(status='claimed', job_id='build', ")
    assert "payload={'a': 1}" in repr(reply_with(b'{"a":1}'))
    assert "secret" not in repr(reply_with(b"1"))
    assert "payload" not in repr(reply_with(None))


def test_replies_can_be_copied_and_pickled() -> None:
    reply = reply_with(b'{"a":1}')
    assert reply.payload == {"a": 1}
    for other in (copy.copy(reply), copy.deepcopy(reply), pickle.loads(pickle.dumps(reply))):
        assert other == reply
        assert other.payload == {"a": 1}


def test_documents_go_over_the_wire_unchanged() -> None:
    lines = {"owner": "ann", "principal": "local", "fencing_token": 1, "attempt": 1, "remaining_ms": 1}
    moment = "2026-07-01T10:00:00Z"
    moments = {"claimed_at": moment, "heartbeat_at": moment, "expires_at": moment}
    sent = {"status": "claimed", "job_id": "b", "lease_id": "l", "ttl": 1.0, "renew_after_ms": 1, **lines, **moments}
    reply = msgspec.convert(sent | {"payload": msgspec.Raw(b"1"), "previous": []}, ClaimReply)
    document = msgspec.json.encode(claim_response(msgspec.structs.replace(reply, raw_payload=msgspec.Raw(BROKEN))))
    assert b'"payload":' + BROKEN in document
    assert msgspec.json.decode(msgspec.json.encode(claim_response(reply)), type=ClaimReply) == reply


@pytest.mark.parametrize("kind", [ClaimReply, JobOwner, JobView, InFlight, SessionReply, SessionView])
def test_every_document_has_a_value(kind: type[msgspec.Struct]) -> None:
    documents = [name for name in kind.__struct_fields__ if name.startswith("raw_")]
    assert documents
    assert all(hasattr(kind, name.removeprefix("raw_")) for name in documents)


def test_replies_can_be_in_a_set() -> None:
    replies = [ClaimReply(status="claimed", job_id="job", raw_payload=written(text)) for text in (b"1", b"1", b"2")]
    assert len(set(replies)) == 2
