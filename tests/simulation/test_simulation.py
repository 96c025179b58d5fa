"""Simulated hours of a whole system under faults: every promise holds, and every run can be repeated."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.simulation.report import command_for, story_of
from tests.simulation.shrink import shrink
from tests.simulation.world import Plan, Result, run
from tests.support.simulated import PROPERTY

ROOT = Path(__file__).parents[2]
RUNS = [
    *(Plan(seed) for seed in range(1, 13)),
    *(Plan(seed, hours=0.3, pace=5) for seed in range(21, 27)),
    *(Plan(seed, hours=0.5, store="sqlite") for seed in range(31, 34)),
]
pytestmark = [
    # Whatever a killed process was about to await is never awaited.
    pytest.mark.filterwarnings(
        "ignore:coroutine .* was never awaited", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]
Record: TypeAlias = Callable[[str, object], None]


def check(result: Result) -> None:
    """It keeps every promise, with enough work and faults to prove something."""
    if result.broken is not None:
        story = "\n".join(story_of(shrink(result)))
        pytest.fail(f"{result.broken}\nreplay it with: {command_for(result.plan)}\nshrunk:\n{story}", pytrace=False)
    assert result.operations > 100
    assert result.fault_counts.total() > 30
    assert result.promise_counts.total() > 1_000


@pytest.mark.parametrize("first", range(0, len(RUNS), 3))
def test_every_promise_is_kept(first: int, record_property: Record) -> None:
    """`make faults` runs more than a thousand hours."""
    for plan in RUNS[first : first + 3]:
        result = run(plan)
        check(result)
        record_property(f"{PROPERTY} s of a whole system", round(result.hours * 3_600))
        record_property(f"{PROPERTY} operations", result.operations)
        record_property(f"{PROPERTY} faults", result.fault_counts.total())
        record_property(f"{PROPERTY} promises checked", result.promise_counts.total())


def test_the_same_seed_is_the_same_run() -> None:
    plan = Plan(7, hours=0.3)
    assert run(plan).digest == run(plan).digest


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_the_same_seed_is_the_same_run_in_another_process(store: str) -> None:
    """String hashes and object addresses do not matter."""
    assert _digest_in_a_process(store, "1") == f"7 {run(Plan(7, hours=0.3, store=store)).digest}"


def _digest_in_a_process(store: str, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.simulation", "--seed", "7", "--hours", "0.3", "--store", store, "--digests"]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    completed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return completed.stdout.splitlines()[0]
