"""An agent that hangs while its MCP server lives: after `--max-silence`, others can claim its jobs."""

import json
import os
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import octostore
from octostore.cli.parser import parse
from octostore.mcp.silence import silence_left
from tests.mcp.conftest import NewAgent, World
from tests.mcp.test_ending import on_a_file
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.starting import PROGRAM, start

SILENCE_SECONDS = 4
"""Longer than this test may pause between two calls."""
TIMES = st.integers(0, 10**6)


@given(now=TIMES, before=TIMES, limit=st.integers(1, 10**5))
def test_silence_is_counted_from_the_last_call(now: float, before: float, limit: float) -> None:
    left = silence_left(now, now - before, limit, is_calling=False)
    assert left is not None
    assert (left == 0) == (before >= limit)
    assert left <= limit
    assert silence_left(now, now - before, limit, is_calling=True) == limit, "a call that waits is not silence"
    assert silence_left(now, now - before, None, is_calling=False) is None


def test_just_before_the_limit_and_at_it() -> None:
    assert silence_left(1_799, 0, 1_800, is_calling=False) == 1
    assert silence_left(1_800, 0, 1_800, is_calling=False) == 0
    assert silence_left(9_999, 0, 1_800, is_calling=False) == 0


@on_a_file
def test_a_silent_agent_loses_its_jobs_and_learns_it(world: World, new_agent: NewAgent) -> None:
    job, bound, session, other = world.new_name(), world.new_name(), world.new_name("session"), world.new_name()
    world.store.enqueue("review", job_id=job, queue=world.new_name("queue"))
    zoe = new_agent("zoe", "--max-silence", f"{SILENCE_SECONDS}s")
    zoe.call("open_session", session_id=session)
    zoe.call("claim_job", job_id=bound, session_id=session)
    zoe.call("claim_job", job_id=job)
    zoe.call("checkpoint", job_id=job, data={"step": 3})
    zoe.call("report_progress", job_id=job, note="thinking")
    got = world.ann.call("claim_job", job_id=job, wait=60)
    assert (got.status, got.document["attempt"], got.document["checkpoint"]) == ("claimed", 1, {"step": 3})
    (before,) = got.document["previous"]
    assert (before["how"], before["owner"]) == ("released", "zoe")
    assert before["note"] == "the agent made no call for 4 seconds; its last report was: thinking"
    until(lambda: world.store.get_session(session).status == "closed")
    assert world.store.get_job_owner(bound) is None

    late = zoe.call("release_job", job_id=job, outcome="done")
    assert (late.is_error, late.status, late.document["holder"]["owner"]) == (True, "lease_lost", "ann")
    assert [text for text in late.more if f"'{job}' was released because you made no call for 4 seconds" in text]
    assert [text for text in late.more if f"session '{session}', with every claim bound to it, was released" in text]
    assert len(late.more) == 3
    assert zoe.call("get_job", job_id=other).more == []
    world.ann.call("release_job", job_id=job)
    assert zoe.call("claim_job", job_id=job).status == "claimed", "it may start again"
    assert f"released {job}: the agent made no call for 4 seconds" in zoe.stderr


@on_a_file
def test_a_wait_is_not_silence_and_the_limit_can_be_turned_off(world: World, new_agent: NewAgent) -> None:
    job = world.new_name()
    world.ann.call("claim_job", job_id=job)
    agents = [new_agent("zoe", "--max-silence", "1"), new_agent("kim", "--max-silence", "never")]
    claimed = {agent: world.new_name() for agent in agents}
    waiting = agents[0].start("claim_job", job_id=job, wait=60)
    for agent, mine in claimed.items():
        assert agent.call("claim_job", job_id=mine).status == "claimed"
    later = [world.bob.start("claim_job", job_id=mine, wait=3) for mine in claimed.values()]
    assert [one.result(PATIENCE_SECONDS).document["owner"] for one in later] == ["zoe", "kim"]
    world.ann.call("release_job", job_id=job)
    assert waiting.result(PATIENCE_SECONDS).status == "claimed"


def test_a_response_that_is_never_read_is_silence(tmp_path: Path) -> None:
    """A client that hangs does not read either, but the call would last until its response is read."""
    env = {**os.environ, "OCTOSTORE_HOME": str(tmp_path)}
    command = [*PROGRAM, "mcp", "--max-silence", "1s"]
    with start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        claim = {"name": "claim_job", "arguments": {"job_id": "job"}}
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": claim}).encode())
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["isError"] is False
        for number in range(1, 50):  # 0.6 MB of responses
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/list"}).encode() + b"\n")
        process.stdin.flush()
        with octostore.connect(f"sqlite:///{tmp_path}/octostore.db") as store:
            until(lambda: bool(store.get_job("job").previous))
            (before,) = store.get_job("job").previous
        assert (before.how, before.note) == ("released", "the agent made no call for 1 seconds")
        process.communicate(timeout=PATIENCE_SECONDS)


def test_zero_turns_it_off_too() -> None:
    assert [parse(["mcp", "--max-silence", word]).max_silence for word in ("0", "never", "30m")] == [0, 0, 1_800]
    assert parse(["mcp"]).max_silence == 1_800, "as the help says"
