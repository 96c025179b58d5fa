"""What a run of the simulator prints."""

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.simulation.world import Plan, Result

STORY_STEPS = 60


def command_for(plan: Plan) -> str:
    """The command that repeats the run exactly."""
    options = f"--seed {plan.seed} --hours {plan.hours:g} --clients {plan.clients} --store {plan.store}"
    if plan.pace != 1:
        options += f" --pace {plan.pace:g}"
    return f".venv/bin/python -m tests.simulation {options}"


def story_of(result: Result) -> Iterator[str]:
    """Who did what and when, with faults marked by `!`."""
    if result.broken is None:
        return
    yield f"{len(result.clients)} clients ({', '.join(result.clients)}), {len(result.faults)} faults:"
    steps = result.steps[-STORY_STEPS:]
    if len(result.steps) > len(steps):
        yield f"  ... {len(result.steps) - len(steps)} steps before"
    yield from (f"  {step}" for step in steps)
    if result.broken.__cause__ is not None:
        yield from traceback.format_exception(result.broken.__cause__)


def summary_of(results: Iterable[Result], seconds: float) -> Iterator[str]:
    hours, operations, runs = 0.0, 0, 0
    faults: Counter[str] = Counter()
    promises: Counter[str] = Counter()
    for result in results:
        runs += 1
        hours += result.hours
        operations += result.operations
        faults += result.fault_counts
        promises += result.promise_counts
    pace = hours / max(seconds, 0.001)
    yield f"{runs} runs, {hours:.1f} simulated hours in {seconds:.1f} s: {pace:.2f} hours per second"
    yield f"{operations:,} operations, {faults.total():,} faults, {promises.total():,} promises checked"
    yield from _table("faults", faults)
    yield from _table("promises", promises)


def _table(title: str, counts: Counter[str]) -> Iterator[str]:
    yield f"{title}:"
    yield from (f"  {count:>9,}  {name}" for name, count in counts.most_common())
