"""The short form of the swarm of `make faults`."""

from pathlib import Path

from tests.agents.swarm import Plan, run

PLAN = Plan(jobs=12, agents=2, kill_seconds=0.7, ttl=3, max_silence=2, patience=120)


def test_agents_that_are_killed_or_stall_never_do_a_job_twice(tmp_path: Path) -> None:
    result = run(tmp_path, PLAN, seed=1)
    assert result.claims >= PLAN.jobs
