"""A short run of the swarm that `make faults` runs at length."""

from pathlib import Path

from tests.agents.swarm import Plan, run

PLAN = Plan(jobs=7, agents=2, blow_seconds=0.3, blows=6, ttl=8, max_silence=3, patience=120)


def test_agents_that_are_killed_or_stall_never_do_a_job_twice(tmp_path: Path) -> None:
    result = run(tmp_path, PLAN, seed=1)
    assert result.claims > PLAN.jobs
