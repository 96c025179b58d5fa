"""Sessions: context that outlives an agent, claims that end together, and a hand-over from one agent to another."""

import signal
from datetime import datetime
from typing import Any

from tests.mcp.conftest import NewAgent, World
from tests.mcp.test_ending import on_a_file
from tests.support.processes import PATIENCE_SECONDS, until


def types_of(world: World, session: str) -> list[str]:
    return [event.type for event in world.store.events(session_id=session)]


def test_a_session_is_saved_closed_and_resumed_by_another(world: World) -> None:
    session, job = world.new_name("session"), world.new_name()
    new = world.ann.call("open_session", session_id=session)
    assert (new.document["resumed"], new.document["agent"], new.document["phase"]) == (False, "ann", "idle")
    saved = world.ann.call("save_session", session_id=session, context={"turn": 7, "next": None}, phase="planning")
    assert saved.document == {"session_id": session, "phase": "planning"}
    claimed = world.ann.call("claim_job", job_id=job, session_id=session)
    assert (claimed.status, claimed.document["session_id"]) == ("claimed", session)

    taken = world.bob.call("open_session", session_id=session)
    assert (taken.is_error, taken.status, taken.document["owner"]) == (True, "held", "ann")
    refused = world.bob.call("save_session", session_id=session, context={})
    assert (refused.status, "open_session" in refused.document["error"]) == ("not_held", True)

    assert world.ann.call("close_session", session_id=session).document == {"session_id": session}
    assert world.ann.call("my_claims").document == {"claims": []}
    assert world.store.get_job_owner(job) is None
    again = world.bob.call("open_session", session_id=session)
    assert (again.document["resumed"], again.document["agent"]) == (True, "bob")
    assert again.document["context"] == {"turn": 7, "next": None}
    world.bob.call("close_session", session_id=session)
    assert world.bob.call("close_session", session_id=session).status == "not_held"


def test_a_session_is_handed_over_with_its_jobs(world: World) -> None:
    session, job = world.new_name("session"), world.new_name()
    world.ann.call("open_session", session_id=session)
    world.ann.call("claim_job", job_id=job, session_id=session)
    world.ann.call("checkpoint", job_id=job, data={"step": 3})
    world.ann.call("save_session", session_id=session, context={"turn": 7})
    handed_over = world.ann.call("hand_over_session", session_id=session, to_agent="bob", note="mind the names")
    assert (handed_over.document["agent"], handed_over.document["jobs"]) == ("bob", [job])
    assert world.ann.call("my_claims").document == {"claims": []}
    assert world.ann.call("report_progress", job_id=job, note="still me").status == "lease_lost"
    assert world.eve.call("open_session", session_id=session).status == "held", "it is bob's"

    taken = world.bob.call("open_session", session_id=session)
    assert (taken.document["note"], taken.document["context"]) == ("mind the names", {"turn": 7})
    (at_work,) = taken.document["in_flight"]
    assert (at_work["job_id"], at_work["is_ours"], at_work["checkpoint"]) == (job, True, {"step": 3})
    assert "`is_ours`" in taken.next
    (mine,) = world.bob.call("my_claims").document["claims"]
    assert (mine["job_id"], mine["status"], mine["owner"]) == (job, "claimed", "bob")
    assert world.bob.call("report_progress", job_id=job, note="now me").is_error is False
    assert world.bob.call("release_job", job_id=job, outcome="done").document["status"] == "done"
    world.bob.call("close_session", session_id=session)


def test_a_session_has_one_task_at_a_time(world: World) -> None:
    session, queue = world.new_name("session"), world.new_name("queue")
    first, second = [world.ann.call("enqueue_job", kind="review", queue=queue).document["job_id"] for _ in range(2)]
    in_session = {"session_id": session, "queue": queue}
    refused = world.ann.call("claim_task", **in_session)
    assert (refused.status, "open_session" in refused.document["error"]) == ("not_held", True)
    world.ann.call("open_session", session_id=session)
    claimed = world.ann.call("claim_task", **in_session)
    assert (claimed.status, claimed.document["job_id"], claimed.document["session_id"]) == ("claimed", first, session)
    assert "release_task" in claimed.next
    assert world.bob.call("claim_task", **in_session).status == "not_held"

    current = world.ann.call("claim_task", **in_session, wait=60)
    assert (current.is_error, current.status, current.document["job_id"]) == (False, "held", first)
    assert "call release_task before you claim another" in current.next
    assert world.store.get_job(second).status == "queued"

    assert world.ann.call("report_progress", job_id=first, note="reading").is_error is False
    ending = {"job_id": first, "result": {"pr": 77}}
    done = world.ann.call("release_task", **ending)
    assert (done.document["status"], world.store.get_job(first).result) == ("done", {"pr": 77})
    assert world.ann.call("release_task", **ending) == done
    assert world.ann.call("claim_task", **in_session).document["job_id"] == second
    failed = world.ann.call("release_task", job_id=second, outcome="failed", error="the tests fail")
    assert (failed.document["status"], world.store.get_job(second).error) == ("queued", "the tests fail")
    empty = world.ann.call("claim_task", **in_session)
    assert (empty.status, empty.document["all_done"]) == ("empty", False)
    assert world.store.get_session(session).status == "open"
    world.ann.call("close_session", session_id=session)


def test_a_task_is_handed_over_with_its_session(world: World) -> None:
    session, queue = world.new_name("session"), world.new_name("queue")
    task = world.ann.call("enqueue_job", kind="review", queue=queue).document["job_id"]
    in_session = {"session_id": session, "queue": queue}
    world.ann.call("open_session", session_id=session)
    world.ann.call("claim_task", **in_session)
    world.ann.call("checkpoint", job_id=task, data={"step": 3})
    assert world.ann.call("hand_over_session", session_id=session, to_agent="bob").document["jobs"] == [task]
    assert world.ann.call("release_task", job_id=task).status == "lease_lost"
    assert world.ann.call("claim_task", **in_session).status == "not_held"

    (at_work,) = world.bob.call("open_session", session_id=session).document["in_flight"]
    assert (at_work["job_id"], at_work["is_ours"], at_work["checkpoint"]) == (task, True, {"step": 3})
    current = world.bob.call("claim_task", **in_session)
    assert (current.status, current.document["job_id"], current.document["owner"]) == ("held", task, "bob")
    assert world.bob.call("release_task", job_id=task).document["status"] == "done"
    world.bob.call("close_session", session_id=session)


def test_tasks_of_a_queue_are_claimed_in_a_session(world: World) -> None:
    session, queue = world.new_name("session"), world.new_name("queue")
    job = world.ann.call("enqueue_job", kind="review", queue=queue).document["job_id"]
    world.ann.call("open_session", session_id=session)
    assert world.ann.call("claim_next_job", queue=queue, session_id=session).document["job_id"] == job
    assert world.store.get_session(session).jobs == [job]
    assert world.ann.call("release_job", job_id=job, outcome="done").document["status"] == "done"
    world.ann.call("close_session", session_id=session)


def test_an_agent_that_loses_a_session_learns_it(world: World) -> None:
    session, job = world.new_name("session"), world.new_name()
    world.ann.call("open_session", session_id=session, ttl=1.2)
    world.ann.call("claim_job", job_id=job, session_id=session)
    world.store.hand_over(session, "bob")
    more: list[str] = []

    def has_arrived() -> bool:
        more.extend(world.ann.call("get_job", job_id="other").more)
        return any(f"session '{session}'" in text for text in more)

    until(has_arrived)
    assert all(text.startswith("lease_lost: ") for text in more)
    assert world.ann.call("save_session", session_id=session, context=1).status == "lease_lost"
    assert world.ann.call("close_session", session_id=session).status == "lease_lost"
    assert world.ann.call("my_claims").document == {"claims": []}


@on_a_file
def test_a_killed_agents_session_is_resumed_with_what_was_in_flight(world: World, new_agent: NewAgent) -> None:
    session, job, queue = world.new_name("session"), world.new_name(), world.new_name("queue")
    task = world.ann.call("enqueue_job", kind="review", queue=queue).document["job_id"]
    zoe = new_agent("zoe")
    zoe.call("open_session", session_id=session, ttl=1)
    zoe.call("save_session", session_id=session, context={"turn": 7})
    zoe.call("claim_job", job_id=job, session_id=session)
    zoe.call("checkpoint", job_id=job, data={"step": 3})
    zoe.call("claim_task", session_id=session, queue=queue)
    zoe.call("checkpoint", job_id=task, data={"step": 4})
    zoe.signal(signal.SIGKILL)
    until(lambda: world.store.get_session(session).status == "expired")
    taken = world.ann.call("open_session", session_id=session)
    assert taken.document["context"] == {"turn": 7}
    lost = {one["job_id"]: (one["is_ours"], one["checkpoint"]) for one in taken.document["in_flight"]}
    assert lost == {job: (False, {"step": 3}), task: (False, {"step": 4})}
    assert "claim_task" in taken.next
    again = world.ann.call("claim_task", session_id=session, queue=queue, wait=60).document
    assert (again["job_id"], again["checkpoint"], again["attempt"]) == (task, {"step": 4}, 2)
    assert world.ann.call("release_task", job_id=task).document["status"] == "done"
    world.ann.call("close_session", session_id=session)


@on_a_file
def test_a_lost_task_in_its_backoff_is_claimed_by_name(world: World, new_agent: NewAgent) -> None:
    session, queue = world.new_name("session"), world.new_name("queue")
    lost = world.store.enqueue("review", queue=queue, max_attempts=20).job_id
    for _ in range(6):  # the backoff is then a minute and a half
        failed = world.store.claim_job(lost)
        world.store.release_job(lost, failed.lease_id or "", outcome="failed")
        world.store.requeue(lost, keep_attempts=True)
    other = world.store.enqueue("review", queue=queue).job_id
    zoe = new_agent("zoe")
    zoe.call("open_session", session_id=session, ttl=1)
    zoe.call("claim_task", session_id=session, queue=queue)
    zoe.call("checkpoint", job_id=lost, data={"step": 3})
    zoe.signal(signal.SIGKILL)
    until(lambda: world.store.get_session(session).status == "expired")
    taken = world.ann.call("open_session", session_id=session)
    (at_work,) = taken.document["in_flight"]
    assert (at_work["job_id"], at_work["is_ours"]) == (lost, False)
    assert datetime.fromisoformat(at_work["available_at"]) == world.store.get_job(lost).available_at
    assert "`available_at` cannot be claimed before then" in taken.next
    assert "claim_job with its `job_id`, your `session_id` and `wait`" in taken.next
    assert world.ann.call("claim_task", session_id=session, queue=queue).document["job_id"] == other
    assert world.ann.call("release_task", job_id=other).document["status"] == "done"
    by_name: dict[str, Any] = {"job_id": lost, "session_id": session}
    assert world.ann.call("claim_job", **by_name).status == "delayed"
    waiting = world.ann.start("claim_job", **by_name, wait=60)
    world.store.requeue(lost)  # instead of waiting for it
    again = waiting.result(PATIENCE_SECONDS).document
    assert (again["job_id"], again["session_id"], again["checkpoint"]) == (lost, session, {"step": 3})
    assert world.ann.call("release_task", job_id=lost).document["status"] == "done"
    world.ann.call("close_session", session_id=session)


@on_a_file
def test_what_can_be_claimed_at_once_has_no_time_to_wait_for(world: World, new_agent: NewAgent) -> None:
    session, job = world.new_name("session"), world.new_name()
    zoe = new_agent("zoe")
    zoe.call("open_session", session_id=session, ttl=1)
    zoe.call("claim_job", job_id=job, session_id=session)
    zoe.signal(signal.SIGKILL)
    until(lambda: world.store.get_session(session).status == "expired")
    taken = world.ann.call("open_session", session_id=session)
    (at_work,) = taken.document["in_flight"]
    assert (at_work["job_id"], at_work["status"], "available_at" in at_work) == (job, "free", False)
    assert "`available_at`" not in taken.next
    world.ann.call("close_session", session_id=session)


@on_a_file
def test_an_agent_that_leaves_closes_its_sessions(world: World, new_agent: NewAgent) -> None:
    session, job = world.new_name("session"), world.new_name()
    zoe = new_agent("zoe")
    zoe.call("open_session", session_id=session)
    zoe.call("claim_job", job_id=job, session_id=session)
    zoe.leave()
    assert world.store.get_session(session).status == "closed"
    assert types_of(world, session)[-2:] == ["released", "session_closed"]
