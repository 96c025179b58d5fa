"""However an agent's session ends, others can soon continue its jobs."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import octostore
from tests.mcp.conftest import NewAgent, World
from tests.support.processes import PATIENCE_SECONDS
from tests.support.starting import SCRIPT, start

on_a_file = pytest.mark.parametrize("shared_world", ["file"], indirect=True)
"""For tests that need many processes and do not depend on the store."""
ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "my_claims"}}


@on_a_file
def test_a_killed_agents_successor_continues_from_its_checkpoint(world: World, new_agent: NewAgent) -> None:
    job = world.new_name()
    eve = new_agent("eve")
    eve.call("claim_job", job_id=job, ttl=1)
    eve.call("checkpoint", job_id=job, data={"step": 3})
    eve.call("report_progress", job_id=job, note="running tests")
    eve.signal(signal.SIGKILL)
    got = world.ann.call("claim_job", job_id=job, wait=20)
    assert (got.status, got.document["attempt"]) == ("claimed", 2)
    assert got.document["checkpoint"] == {"step": 3}
    (before,) = got.document["previous"]
    assert (before["owner"], before["how"], before["note"]) == ("eve", "expired", "running tests")
    assert "Continue from `checkpoint`" in got.next
    world.ann.call("release_job", job_id=job, outcome="done")


@on_a_file
def test_an_agent_that_leaves_releases_its_jobs(world: World, new_agent: NewAgent) -> None:
    job, waited_for = world.new_name(), world.new_name()
    world.ann.call("claim_job", job_id=waited_for)
    eve = new_agent("eve", "--owner", "evelyn")
    eve.call("claim_job", job_id=job)
    eve.call("checkpoint", job_id=job, data={"step": 3})
    eve.call("report_progress", job_id=job, note="running tests")
    eve.start("claim_job", job_id=waited_for, wait=60)
    eve.call("my_claims")  # by now, the wait has begun
    eve.leave()
    assert eve.stderr == f"octostore: released {job}\n"
    got = world.bob.call("claim_job", job_id=job)
    assert (got.status, got.document["attempt"], got.document["checkpoint"]) == ("claimed", 1, {"step": 3})
    (before,) = got.document["previous"]
    assert (before["how"], before["owner"], before["note"]) == ("released", "evelyn", "running tests")
    assert before["error"] == "the agent's session ended before it released the job"
    world.bob.call("release_job", job_id=job)
    world.ann.call("release_job", job_id=waited_for)
    assert world.store.get_job_owner(waited_for) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@on_a_file
def test_a_signal_ends_it_and_releases_what_is_held(world: World, new_agent: NewAgent, number: signal.Signals) -> None:
    job = world.new_name()
    eve = new_agent("eve")
    eve.call("claim_job", job_id=job)
    eve.signal(number)
    eve.until_gone()
    assert eve.stderr == f"octostore: released {job}\n"
    assert [event.type for event in world.store.events(job_id=job)] == ["claimed", "released"]


@on_a_file
def test_of_five_agents_one_wins(world: World, new_agent: NewAgent) -> None:
    job = world.new_name()
    agents = [world.ann, world.bob, *(new_agent(f"agent-{number}") for number in range(3))]
    for agent in agents:
        assert agent.client  # it has started
    claims = [agent.start("claim_job", job_id=job) for agent in agents]
    replies = [claim.result(20) for claim in claims]
    assert sorted(reply.status for reply in replies) == ["claimed", *["held"] * 4]
    (winner,) = [agent.name for agent, reply in zip(agents, replies, strict=True) if reply.status == "claimed"]
    assert {reply.document["owner"] for reply in replies} == {winner}
    assert [event.type for event in world.store.events(job_id=job)] == ["claimed"]
    for agent in agents[:2]:
        agent.call("release_job", job_id=job)


@pytest.fixture
def process(tmp_path: Path) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    env = {**os.environ, "OCTOSTORE_HOME": str(tmp_path)}
    return start([*SCRIPT, "mcp"], stdin=pipe, stdout=pipe, stderr=pipe, env=env, text=True)


def test_a_client_that_sends_nothing_gets_nothing(process: "subprocess.Popen[str]") -> None:
    assert process.communicate(timeout=PATIENCE_SECONDS) == ("", "")
    assert process.returncode == 0


def test_a_client_that_hangs_up_at_once_gets_its_responses_and_leaves_no_claim(
    process: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    calls = [("claim_job", {"job_id": "job"}), ("claim_next_job", {"wait": 600}), ("get_job", {"job_id": "job"})]
    asked = [{**ASK, "id": name, "params": {"name": name, "arguments": arguments}} for name, arguments in calls]
    out, err = process.communicate("".join(f"{json.dumps(one)}\n" for one in asked), timeout=PATIENCE_SECONDS)
    assert {json.loads(line)["id"] for line in out.splitlines()} == {"claim_job", "get_job"}
    assert (process.returncode, err) == (0, "octostore: released job\n")
    with octostore.connect(f"sqlite:///{tmp_path}/octostore.db") as store:
        assert [event.type for event in store.events()] == ["claimed", "released"]


def test_a_client_that_does_not_read_causes_no_error(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdout.close()
        process.stdin.write(json.dumps(ASK) + "\n")
        process.stdin.flush()
        assert process.stderr.read() == ""
    assert process.returncode == 0
