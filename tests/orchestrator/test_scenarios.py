"""The orchestrator's scenarios: each agent is a process of its own, and the log verifies at the end."""

import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from octostore.orchestrator import Orchestrator
from tests.support.processes import Worker, until

TTL = 1


class Agent:
    def __init__(self, worker: Worker, name: str) -> None:
        self.worker = worker
        self.name = name

    def claim(self, session_id: str = "s", **more: Any) -> dict[str, Any]:
        reply: dict[str, Any] = self.worker.ask(
            "claim_task", session_id=session_id, agent=self.name, **{"ttl": 60, **more}
        )
        return reply

    def release(self, task: dict[str, Any], **more: Any) -> dict[str, Any]:
        names = {name: task[name] for name in ("session_id", "task_id", "lock_token")}
        reply: dict[str, Any] = self.worker.ask("release_task", **names, **more)
        return reply

    def heartbeat(self, task: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = self.worker.ask(
            "heartbeat", session_id=task["session_id"], lock_token=task["lock_token"]
        )
        return reply


@pytest.fixture
def agents(url: str, orchestrator: Orchestrator) -> Iterator[tuple[Agent, Agent]]:
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker("agent", url)) for _ in range(2)]
        assert [worker.hear() for worker in workers] == ["ready", "ready"]
        yield Agent(workers[0], "home"), Agent(workers[1], "work")
        verdict = orchestrator.store.verify()
        assert verdict.problems == []
        assert verdict.events == verdict.last_seq


def event_types(orchestrator: Orchestrator) -> list[str]:
    return [event.type for event in orchestrator.store.events()]


def test_from_claim_to_completion(orchestrator: Orchestrator, agents: tuple[Agent, Agent]) -> None:
    home, _ = agents
    task_id = orchestrator.enqueue_task("review", {"pr": 77}).job_id
    task = home.claim()
    assert (task["status"], task["task_id"], task["payload"], task["phase"]) == (
        "claimed",
        task_id,
        {"pr": 77},
        "planning",
    )
    assert home.heartbeat(task)["remaining_ms"] == 60_000
    assert home.release(task, result={"ok": True})["status"] == "done"
    assert orchestrator.session_state("s").phase == "idle"
    assert orchestrator.store.get_job(task_id).result == {"ok": True}
    assert event_types(orchestrator) == ["enqueued", "session_opened", "claimed", "done", "session_closed"]


def test_two_claim_at_once_and_one_wins(orchestrator: Orchestrator, agents: tuple[Agent, Agent]) -> None:
    for round_number in range(5):
        orchestrator.enqueue_task("review", task_id=f"one-{round_number}", session_id="s")
        orchestrator.enqueue_task("review", task_id=f"two-{round_number}", session_id="s")
        with ThreadPoolExecutor(2) as pool:
            replies = list(pool.map(Agent.claim, agents))
        assert sorted(reply["status"] for reply in replies) == ["claimed", "held"]
        winner = next(agent for agent, reply in zip(agents, replies, strict=True) if reply["status"] == "claimed")
        won, held = sorted(replies, key=lambda reply: reply["status"])
        assert held["agent"] == winner.name
        winner.release(won)
        winner.release(winner.claim())
    assert event_types(orchestrator).count("claimed") == event_types(orchestrator).count("done") == 10


def test_a_lease_expires_and_another_takes_over(orchestrator: Orchestrator, agents: tuple[Agent, Agent]) -> None:
    home, work = agents
    orchestrator.enqueue_task("review", task_id="task", session_id="s")
    lost = home.claim(ttl=TTL)
    home.worker.ask("checkpoint", task_id="task", lock_token=lost["lock_token"], data={"file": 3})
    home.worker.ask(
        "save_state",
        session_id="s",
        lock_token=lost["lock_token"],
        phase="executing",
        last_action="read file 3",
        next_action="read file 4",
        turn=4,
    )
    home.worker.signal(signal.SIGSTOP)
    taken = work.claim(wait=10, ttl=30)
    assert (taken["status"], taken["attempt"], taken["checkpoint"]) == ("claimed", 2, {"file": 3})
    assert (taken["phase"], taken["context"]["next_action"], taken["context"]["turn"]) == (
        "executing",
        "read file 4",
        4,
    )
    assert taken["fencing_token"] > lost["fencing_token"]
    home.worker.signal(signal.SIGCONT)
    late = home.release(lost, result="late")
    assert late["error"] == "lease_lost"
    assert "work" in late["said"]
    assert home.heartbeat(lost)["error"] == "lease_lost"
    assert work.release(taken)["status"] == "done"


def test_a_duplicate_is_skipped_with_no_new_event(orchestrator: Orchestrator, agents: tuple[Agent, Agent]) -> None:
    home, work = agents
    first = home.worker.ask("enqueue_task", kind="review", task_id="pr-77")
    before = event_types(orchestrator)
    again = work.worker.ask("enqueue_task", kind="review", task_id="pr-77", payload={"other": True})
    assert (first["created"], again["created"]) == (True, False)
    task = home.claim()
    home.release(task)
    done = event_types(orchestrator)
    assert work.worker.ask("enqueue_task", kind="review", task_id="pr-77")["status"] == "done"
    assert work.claim()["status"] == "empty"
    assert before == ["enqueued"]
    assert event_types(orchestrator) == done


def test_stale_recovery(orchestrator: Orchestrator, agents: tuple[Agent, Agent]) -> None:
    home, work = agents
    orchestrator.enqueue_task("review", task_id="task")
    alive = work.claim("alive", kind="nothing-of-the-kind")
    assert alive["status"] == "empty"
    lost = home.claim(ttl=TTL)
    assert work.worker.ask("stale_recovery", agent="work") == [], "it is alive"
    home.worker.kill()
    until(lambda: orchestrator.session_state("s").status == "expired")
    (evidence,) = work.worker.ask("stale_recovery", agent="work")
    assert (evidence["job_id"], evidence["owner"], evidence["session_id"]) == ("task", "home", "s")
    assert (evidence["ttl"], evidence["fencing_token"]) == (TTL, lost["fencing_token"])
    assert evidence["late_ms"] >= 0
    state = orchestrator.session_state("s")
    assert (state.status, state.in_flight, state.phase) == ("expired", ["task"], "planning")
    assert work.worker.ask("stale_recovery", agent="work") == []
    (expired,) = [event for event in orchestrator.events_since("s") if event.type == "expired"]
    assert (expired.agent, expired.session_id) == ("home", "s")
    assert re.fullmatch(r"no heartbeat for \d+\.?\d* s, TTL 1 s", expired.reason or "")
    resumed = work.claim("s")
    assert (resumed["task_id"], resumed["attempt"]) == ("task", 2)


def test_a_session_is_handed_to_another_machine(orchestrator: Orchestrator, agents: tuple[Agent, Agent]) -> None:
    home, work = agents
    orchestrator.enqueue_task("review", task_id="task", session_id="s")
    task = home.claim()
    home.worker.ask("checkpoint", task_id="task", lock_token=task["lock_token"], data={"file": 3})
    assert work.claim()["status"] == "held"
    handed_over = home.worker.ask(
        "hand_over", session_id="s", to_agent="work", note="file 4 is next", lock_token=task["lock_token"]
    )
    assert (handed_over["agent"], handed_over["jobs"]) == ("work", ["task"])
    assert home.heartbeat(task)["error"] == "lease_lost"
    taken = work.claim()
    assert (taken["task_id"], taken["checkpoint"], taken["note"]) == ("task", {"file": 3}, "file 4 is next")
    assert taken["attempt"] == task["attempt"], "a hand-over is not an attempt"
    assert home.release(task)["error"] == "lease_lost"
    assert work.release(taken)["status"] == "done"


def test_failures_are_retried_and_then_wait_for_a_person(
    orchestrator: Orchestrator, agents: tuple[Agent, Agent]
) -> None:
    home, work = agents
    orchestrator.enqueue_task("review", {"pr": 77}, task_id="task", max_attempts=2)
    for agent, status in ((home, "queued"), (work, "dead")):
        assert agent.release(agent.claim(), outcome="failed", error="tests fail")["status"] == status
    assert orchestrator.session_state("s").phase == "error"
    (letter,) = work.worker.ask("dead_letters")
    assert (letter["job_id"], letter["attempts"], letter["error"]) == ("task", 2, "tests fail")
    story = work.worker.ask("task_story", task_id="task")
    assert story["task"]["payload"] == {"pr": 77}
    assert [event["type"] for event in story["events"]] == ["enqueued", "claimed", "failed", "claimed", "failed"]
    assert work.worker.ask("health")["status"] == "degraded"
    work.worker.ask("requeue", task_id="task", reason="fixed", keep_attempts=True)
    assert work.release(work.claim(), outcome="failed")["status"] == "dead"
    assert work.worker.ask("discard", task_id="task", reason="closed")["status"] == "free"
    assert work.worker.ask("dead_letters") == []
