"""Several commands in one call."""

from typing import Any

import pytest

from octostore import ClaimReply, InvalidInput, LeaseLost, NotFound, OctoStore
from tests.conformance.conftest import System


def claim(job_id: str, **more: Any) -> dict[str, Any]:
    return {"command": "claim_job", "job_id": job_id, "owner": "ann", **more}


def test_each_command_gets_the_reply_of_a_single_call_in_order(system: System) -> None:
    store = system.store
    held = system.other.claim_job("held", owner="bob")
    replies = store.batch(
        [
            claim("free", metadata={"step": 1}, ttl_seconds=60),
            claim("held"),
            {"command": "enqueue", "kind": "build", "job_id": "task", "payload": {"commit": "abc"}},
            {"command": "claim_next", "queue": "default", "owner": "ann"},
            {"command": "heartbeat_job", "job_id": "held", "lease_id": "no such lease"},
            {"command": "open_session", "session_id": "s", "agent": "ann"},
            {"command": "requeue_job", "job_id": "never-seen"},
        ]
    )
    free, refused, task, following, late, session, unknown = replies
    assert (free.status, free.owner, free.metadata, free.ttl) == ("claimed", "ann", {"step": 1}, 60)
    assert (refused.status, refused.owner) == ("held", "bob")
    assert (task.job_id, task.created) == ("task", True)
    assert (following.status, following.job_id, following.payload) == ("claimed", "task", {"commit": "abc"})
    assert isinstance(late, LeaseLost)
    assert late.holder is not None
    assert (late.job_id, late.holder.owner) == ("held", "bob")
    assert (session.session_id, session.agent) == ("s", "ann")
    assert isinstance(unknown, NotFound)
    assert store.release_job("free", free.lease_id).status == "free"
    assert system.other.release_job("held", held.lease_id or "").status == "free"


def test_a_batch_is_one_transaction(store: OctoStore) -> None:
    store.batch([claim(f"job-{number}") for number in range(30)])
    events = [event for event in store.events() if event.type == "claimed"]
    assert len(events) == 30
    assert len({event.at for event in events}) == 1
    assert [event.job_id for event in events] == [f"job-{number}" for number in range(30)]


@pytest.mark.parametrize("atomic", [True, False])
def test_a_batch_may_have_a_thousand_commands(store: OctoStore, atomic: bool) -> None:
    names = [f"job-{number:04}" for number in range(1_000)]
    replies = store.batch([claim(name) for name in names], atomic=atomic)
    assert [(reply.status, reply.job_id) for reply in replies] == [("claimed", name) for name in names]
    assert [owner.job_id for owner in store.list_claimed_jobs()] == names


def test_bad_commands_are_refused_before_anything_is_done(store: OctoStore) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"command": "no_such_thing"}, "must be one of claim_job"),
        ({"job_id": "b"}, "must be one of claim_job"),
        ({"command": "create_token", "name": "ci"}, "must be one of"),
        ({"command": "claim_job"}, "job_id is required"),
        ({"command": "claim_job", "job_id": 5}, "job_id must be text, not a whole number"),
        (claim("b", unknown=1), "unknown is not a field of this call"),
        (claim("b", ttl_seconds="long"), "ttl_seconds"),
        (claim("not a name"), "job_id"),
        (claim("b", ttl_seconds=0), "ttl"),
        ({"command": "acquire_lock", "job_id": "b"}, "lock clients"),
    ]
    for wrong, message in cases:
        with pytest.raises(InvalidInput, match=r"commands\[1\]") as caught:
            store.batch([claim("a"), wrong])
        assert message in str(caught.value)
    assert store.get_job("a").status == "free"


@pytest.mark.parametrize("count", [0, 1_001])
def test_too_many_commands_or_none_are_refused(store: OctoStore, count: int) -> None:
    with pytest.raises(InvalidInput, match="commands"):
        store.batch([claim(f"job-{number}") for number in range(count)])
    assert list(store.events()) == []


def test_a_batch_of_several_transactions_may_have_any_number_of_commands(store: OctoStore) -> None:
    replies = store.batch([claim(f"job-{number}") for number in range(1_001)], atomic=False)
    assert [reply.job_id for reply in replies if reply.status == "claimed"] == [f"job-{n}" for n in range(1_001)]
    with pytest.raises(InvalidInput, match="commands"):
        store.batch([], atomic=False)


def test_optional_fields_have_defaults(store: OctoStore) -> None:
    taken, task, session = store.batch(
        [
            {"command": "claim_job", "job_id": "a"},
            {"command": "enqueue", "kind": "build"},
            {"command": "open_session"},
        ]
    )
    assert taken.owner
    assert task.job_id.startswith("job-")
    assert session.session_id
    assert session.ttl == 120


def test_the_same_batch_again_gets_the_same_claims(store: OctoStore) -> None:
    batch = [claim("a", request_id="r1"), claim("b", request_id="r2")]
    first, second = store.batch(batch), store.batch(batch)
    assert [reply.lease_id for reply in first] == [reply.lease_id for reply in second]
    assert [reply.replayed for reply in second] == [True, True]


def test_many_jobs_are_claimed_and_released(system: System) -> None:
    store = system.store
    system.other.claim_job("b", owner="bob")
    claims = store.claim_many(["a", "b", "c"], owner="ann", metadata={"run": 7}, ttl=60)
    assert [(reply.status, reply.owner) for reply in claims] == [
        ("claimed", "ann"),
        ("held", "bob"),
        ("claimed", "ann"),
    ]
    with pytest.raises(InvalidInput, match="did not succeed"):
        store.release_many(claims)
    mine = [reply for reply in claims if reply.status == "claimed"]
    released = store.release_many(mine, "done", result={"ok": True})
    assert [reply.outcome for reply in released] == ["done", "done"]
    assert [store.get_job(name).result for name in "abc"] == [{"ok": True}, None, {"ok": True}]
    again = store.release_many([(reply.job_id or "", "another lease") for reply in mine])
    assert [type(reply) for reply in again] == [LeaseLost, LeaseLost]


def test_many_jobs_are_enqueued(store: OctoStore) -> None:
    jobs: list[dict[str, Any]] = [{"payload": {"n": number}, "job_id": f"job-{number:04}"} for number in range(1_200)]
    replies = store.enqueue_many([*jobs, {"kind": "test", "job_id": "last"}], kind="build", queue="ci")
    assert [reply.job_id for reply in replies] == [*(job["job_id"] for job in jobs), "last"]
    assert {reply.created for reply in replies} == {True}
    assert (replies[0].kind, replies[-1].kind, replies[-1].queue) == ("build", "test", "ci")
    claimed = store.claim_next("ci")
    assert (claimed.job_id, claimed.payload) == ("job-0000", {"n": 0})
    for wrong in ({"kind": "build", "colour": "red"}, {"payload": 1}):
        with pytest.raises(InvalidInput):
            store.enqueue_many([wrong])
    assert store.enqueue_many([]) == []


def test_no_command_in_a_batch_can_wait(store: OctoStore) -> None:
    """A waiting command would hold up all the others."""
    with pytest.raises(InvalidInput, match="a batch cannot wait"):
        store.batch([claim("a", wait_seconds=5)])


def test_one_batch_can_release_a_job_and_claim_the_next(store: OctoStore) -> None:
    store.enqueue_many([{"job_id": "first"}, {"job_id": "second"}], kind="build")
    taken: ClaimReply = store.claim_next(owner="ann")
    ended, following = store.batch(
        [
            {"command": "release_job", "job_id": "first", "lease_id": taken.lease_id, "outcome": "done"},
            {"command": "claim_next", "queue": "default", "owner": "ann"},
        ]
    )
    assert (ended.status, following.job_id) == ("done", "second")


def test_any_number_of_large_jobs_can_be_enqueued(store: OctoStore) -> None:
    """More than a server accepts in one call."""
    replies = store.enqueue_many([{"payload": "x" * 200_000} for _ in range(30)], kind="build")
    assert [reply.created for reply in replies] == [True] * 30


@pytest.mark.parametrize("wrong", ["abc", [("a",)], [1], ["ab"]])
def test_a_bad_list_of_jobs_or_claims_is_refused(store: OctoStore, wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        store.claim_many(wrong) if wrong == "abc" else store.release_many(wrong)
    with pytest.raises(InvalidInput, match="must be an object"):
        store.batch(wrong)
