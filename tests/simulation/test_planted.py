"""The simulator finds each planted fault, within its number of runs."""

import pytest

from tests.simulation.planted import HOURS, PACE, PLANTED, Planted, find
from tests.simulation.shrink import shrink
from tests.simulation.world import Plan, run

pytestmark = [
    # Whatever a killed process was about to await is never awaited.
    pytest.mark.filterwarnings(
        "ignore:coroutine .* was never awaited", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_fault_is_found(planted: Planted) -> None:
    assert find(planted) is not None, f"{planted.name} ({planted.breaks}) was not found in {planted.within} runs"


def test_a_failure_is_shrunk_to_a_story() -> None:
    (planted,) = [planted for planted in PLANTED if planted.name == "late duplicate claims again"]
    with planted.plant():
        failed = run(Plan(1, HOURS, pace=PACE))
        story = shrink(failed)
    assert failed.broken is not None
    assert story.broken is not None
    assert story.broken.promise == failed.broken.promise
    assert len(story.clients) <= 2
    assert len(story.faults) <= 3
    assert len(story.steps) <= 40
    assert run(story.plan).broken is None, "without the planted fault, the same run passes"
