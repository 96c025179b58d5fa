"""Sessions that run tasks, are handed over and are resumed, and what the store reports about them."""

import threading

import pytest

from octostore import Conflict, HeldClaim, LeaseLost
from octostore.core.health import Threshold, Thresholds
from tests.conformance.conftest import System


def enqueue(system: System, *names: str, max_attempts: int = 5) -> None:
    for name in names:
        system.store.enqueue("build", {"for": name}, job_id=name, queue="tasks", max_attempts=max_attempts)


def test_a_task_from_claim_to_completion(system: System) -> None:
    enqueue(system, "task")
    assert not system.other.enqueue("build", job_id="task", queue="tasks").created
    claimed = system.store.claim_task("s", "ann", queues=["tasks"], ttl=30)
    assert (claimed.status, claimed.job_id, claimed.payload) == ("claimed", "task", {"for": "task"})
    assert claimed.session is not None
    assert (claimed.session.session_id, claimed.session.phase) == ("s", "planning")
    held = system.other.claim_task("s", "bob", queues=["tasks"])
    assert (held.status, held.owner, held.session_id) == ("held", "ann", "s")
    lease = claimed.lease_id or ""
    system.advance(20)
    assert system.store.keep_session_alive("s", lease).remaining_ms == 30_000
    system.advance(20)
    assert system.store.save_session("s", lease, {"turn": 1}, phase="executing").phase == "executing"
    done = system.store.release_task("s", "task", lease, result={"pr": 77})
    assert system.store.release_task("s", "task", lease, result={"pr": 77}) == done
    view = system.other.get_session("s")
    assert (view.status, view.phase, view.context) == ("closed", "idle", {"turn": 1})
    before = [event.type for event in system.store.events()]
    assert system.other.claim_task("s", "bob", queues=["tasks"]).status == "empty"
    assert [event.type for event in system.store.events()] == before, "an empty queue leaves no event"
    assert system.store.claim_job("task").result == {"pr": 77}


def test_a_lost_session_is_resumed_with_its_task(system: System) -> None:
    enqueue(system, "task")
    lost = system.store.claim_task("s", "ann", queues=["tasks"], ttl=30)
    system.store.save_session("s", lost.lease_id or "", {"turn": 4}, phase="executing")
    system.store.checkpoint_job("task", lost.lease_id or "", {"step": 3})
    system.advance(35)
    (evidence,) = system.other.recover()
    assert (evidence.job_id, evidence.session_id, evidence.late_ms) == ("task", "s", 5_000)
    resumed = system.other.open_session("bob", session_id="s")
    assert (resumed.context, resumed.phase) == ({"turn": 4}, "executing")
    (task,) = resumed.in_flight
    assert (task.job_id, task.status, task.payload, task.checkpoint) == ("task", "queued", {"for": "task"}, {"step": 3})
    assert [event.type for event in resumed.since()] == ["expired", "session_expired", "session_opened"]
    with pytest.raises(LeaseLost):
        system.store.release_task("s", "task", lost.lease_id or "")
    resumed.close()
    again = system.other.claim_task("s", "bob", queues=["tasks"])
    assert (again.attempt, again.checkpoint, again.previous[0].owner) == (2, {"step": 3}, "ann")


def test_a_session_is_handed_over_alive(system: System) -> None:
    session = system.store.open_session("home", session_id="s", ttl=30)
    session.save({"turn": 4}, phase="planning")
    first = system.store.claim_job("job", session_id="s", owner="home")
    handed_over = session.hand_over("work", "the tests still fail")
    assert (handed_over.agent, handed_over.jobs) == ("work", ["job"])
    with pytest.raises(LeaseLost, match="work"):
        session.keepalive()
    with pytest.raises(LeaseLost, match="work"):
        system.store.release_job("job", first.lease_id or "")
    view = system.store.get_session("s")
    assert (view.agent, view.offered, view.note) == ("work", True, "the tests still fail")
    taken = system.other.open_session("work", session_id="s")
    assert (taken.context, taken.phase, taken.note) == ({"turn": 4}, "planning", "the tests still fail")
    (job,) = taken.in_flight
    assert (job.job_id, job.is_ours, job.owner) == ("job", True, "work")
    assert (job.fencing_token or 0) > (first.fencing_token or 0)
    assert system.other.release_job("job", taken.reply.lease_id, outcome="done").status == "done"
    taken.close()


def test_leaving_the_block_of_a_session_after_a_hand_over_is_not_an_error(system: System) -> None:
    with system.store.open_session("home", session_id="s") as session:
        session.hand_over("work")
    assert system.store.get_session("s").status == "open"
    with system.other.open_session("work", session_id="s"):
        pass
    assert system.store.get_session("s").status == "closed"


def test_an_open_session_runs_one_task_at_a_time(system: System) -> None:
    session = system.store.open_session("ann", session_id="s", ttl=30)
    lease = session.reply.lease_id
    enqueue(system, "one", "two")
    first = system.store.claim_task("s", "ann", queues=["tasks"], lease_id=lease)
    assert (first.status, first.job_id, first.session, first.session_id) == ("claimed", "one", None, "s")
    held = system.store.claim_task("s", "ann", queues=["tasks"], lease_id=lease, wait=60)
    assert (held.status, held.job_id, held.fencing_token) == ("held", "one", first.fencing_token)
    assert system.store.release_job("one", lease, "done", result=7).status == "done"
    assert system.store.claim_task("s", "ann", queues=["tasks"], lease_id=lease).job_id == "two"
    session.hand_over("bob")
    taken = system.other.open_session("bob", session_id="s")
    assert [(job.job_id, job.is_ours) for job in taken.in_flight] == [("two", True)]
    with pytest.raises(LeaseLost):
        system.store.claim_task("s", "ann", queues=["tasks"], lease_id=lease)
    taken.close()


def test_a_phase_that_may_not_follow_is_refused(system: System) -> None:
    session = system.store.open_session("ann", session_id="s")
    with pytest.raises(Conflict, match="cannot be blocked next") as caught:
        session.save({"turn": 1}, phase="blocked")
    assert caught.value.status == "idle"
    assert system.other.get_session("s").context is None
    session.save({"turn": 1}, phase="executing")
    assert session.phase == "executing"
    (saved,) = [event for event in system.other.events(session_id="s") if event.type == "session_saved"]
    assert (saved.agent, saved.data["phase"], saved.data["phase_before"]) == ("ann", "executing", "idle")


def test_a_caller_can_wait_for_a_task(system: System) -> None:
    claimed: list[str | None] = []

    def wait() -> None:
        claimed.append(system.other.claim_task("s", "bob", queues=["more", "tasks"], wait=30).job_id)

    waiting = threading.Thread(target=wait)
    waiting.start()
    enqueue(system, "task")
    waiting.join(20)
    assert claimed == ["task"]


def test_a_caller_can_wait_for_a_session(system: System) -> None:
    enqueue(system, "one", "two")
    first = system.store.claim_task("s", "ann", queues=["tasks"])
    claimed: list[str | None] = []

    def wait() -> None:
        claimed.append(system.other.claim_task("s", "bob", queues=["tasks"], wait=30).job_id)

    waiting = threading.Thread(target=wait)
    waiting.start()
    system.store.release_task("s", first.job_id or "", first.lease_id or "")
    waiting.join(20)
    assert claimed == ["two"]


def test_work_session_settles_every_task(system: System) -> None:
    enqueue(system, "one", "two", "bad", max_attempts=1)
    seen: list[tuple[str, int]] = []

    def handle(claim: HeldClaim) -> str:
        assert claim.reply.session is not None
        seen.append((claim.job_id, len(system.other.get_session("s").jobs)))
        if claim.job_id == "bad":
            raise RuntimeError("no")
        return str(claim.payload["for"])

    assert system.store.work_session("s", handle, agent="ann", queues=["tasks"], until_empty=True) == 3
    assert sorted(seen) == [("bad", 1), ("one", 1), ("two", 1)]
    assert system.other.get_job("one").result == "one"
    assert [job.error for job in system.other.dead_jobs(queue="tasks")] == ["RuntimeError: no"]
    assert system.other.get_session("s").status == "closed"


def test_a_handler_can_hand_its_task_over(system: System) -> None:
    enqueue(system, "one")
    system.store.enqueue("build", job_id="lock", queue="other")

    def pass_on(claim: HeldClaim) -> str:
        claim.checkpoint({"step": 3})
        claim.hand_over("bob", "step 4 is next")
        with pytest.raises(LeaseLost, match="handed over to 'bob'"):
            claim.check()
        return "this is not a result"

    assert system.store.work_session("s", pass_on, agent="ann", queues=["tasks"], until_empty=True) == 1
    taken = system.other.claim_task("s", "bob", queues=["tasks"])
    assert taken.session is not None
    assert (taken.job_id, taken.checkpoint, taken.session.note) == ("one", {"step": 3}, "step 4 is next")

    def refuse(claim: HeldClaim) -> None:
        claim.hand_over("bob")

    system.store.work("other", refuse, until_empty=True)
    assert "did not open a session" in (system.store.get_job("lock").error or "")


def test_dead_jobs_are_requeued_or_discarded(system: System) -> None:
    enqueue(system, "one", "two", max_attempts=1)
    for _ in range(2):
        claim = system.store.claim_next("tasks")
        system.store.release_job(claim.job_id or "", claim.lease_id or "", outcome="failed", error="no")
    assert system.other.requeue("one", reason="try", keep_attempts=True).attempts == 1
    view = system.other.discard("two", reason="the branch is gone")
    assert (view.status, view.last_outcome, view.queue) == ("free", "discarded", None)
    assert system.other.dead_jobs() == []
    last = list(system.other.events())[-2:]
    assert [(event.type, event.reason) for event in last] == [("requeued", "try"), ("discarded", "the branch is gone")]
    with pytest.raises(Conflict):
        system.other.discard("one")


def test_health_reports_what_waits_and_what_is_late(system: System) -> None:
    assert system.store.health().status == "ok"
    enqueue(system, "one", "two")
    system.store.claim_task("s", "ann", queues=["tasks"], ttl=900)
    system.advance(600)
    health = system.other.health()
    assert (health.queued, health.running, health.late, health.dead) == (1, 1, 1, 0)
    assert health.oldest_waiting_seconds == 600
    (session,) = health.sessions
    assert (session.session_id, session.phase, session.heartbeat_age_seconds, session.is_late, session.jobs) == (
        "s",
        "planning",
        600,
        True,
        ["one"],
    )
    assert health.status == "degraded"
    assert health.reasons == ["a job has been waiting for 600 s", "1 claim is late with heartbeats"]
    strict = Thresholds(oldest_waiting_seconds=Threshold(10, 60))
    assert system.other.health(strict).status == "unhealthy"
    lenient = Thresholds(oldest_waiting_seconds=Threshold(), late=Threshold())
    assert system.other.health(lenient).status == "ok"


def test_a_log_is_sound_before_and_after_expiries_are_recorded(system: System) -> None:
    enqueue(system, "one", "two", "three", max_attempts=1)
    done = system.store.claim_task("s", "ann", queues=["tasks"], ttl=30)
    system.store.save_session("s", done.lease_id or "", {"turn": 4}, phase="executing")
    system.store.hand_over("s", "bob", "yours")
    taken = system.other.claim_task("s", "bob", queues=["tasks"], ttl=30)
    system.other.release_task("s", taken.job_id or "", taken.lease_id or "")
    system.other.claim_task("t", "eve", queues=["tasks"], ttl=30)
    system.store.claim_job("lock", ttl=30)
    system.store.claim_job("lives", ttl=3_000, metadata={"branch": "x"})
    system.advance(60)
    verdict = system.store.verify()
    assert verdict.problems == []
    assert (verdict.claims, verdict.jobs, verdict.sessions) == (5, 5, 2)
    system.store.recover()
    again = system.other.verify()
    assert again.is_sound
    assert again.events == again.last_seq > verdict.events, "the expiries were not recorded before"
