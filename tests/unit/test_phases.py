"""What a session is doing, as a state machine."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.commands import OpenSession, SaveSession
from octostore.core.errors import Conflict, InvalidInput
from octostore.core.model import Phase
from octostore.core.phases import NEXT, phase_after_task, phase_with_task
from octostore.core.questions import GetSession
from tests.support.world import World

PHASES: tuple[Phase, ...] = get_args(Phase)


def save(world: World, phase: Phase | None) -> Phase:
    return world.do(SaveSession(session_id="s", context=b"1", phase=phase)).phase


@given(st.lists(st.sampled_from(PHASES), max_size=12))
def test_only_allowed_phases_follow_and_each_change_is_logged(wanted: list[Phase]) -> None:
    world = World()
    world.do(OpenSession(session_id="s", agent="ann", without_lease=True))
    current: Phase = "idle"
    changes = []
    for phase in wanted:
        if phase == current or phase in NEXT[current]:
            assert save(world, phase) == phase
            changes += [(current, phase)] if phase != current else []
            current = phase
        else:
            before = len(world.log())
            with pytest.raises(Conflict, match=f"is {current}, and cannot be {phase} next"):
                save(world, phase)
            assert len(world.log()) == before
    logged = [
        (event.data.get("phase_before"), event.data["phase"]) for event in world.events() if "phase" in event.data
    ]
    assert logged == changes
    assert world.ask(GetSession(session_id="s")).phase == current


def test_every_phase_can_be_left_and_reached() -> None:
    assert NEXT.keys() == set(PHASES)
    assert all(NEXT.values())
    assert set().union(*NEXT.values()) == set(PHASES)
    assert all(phase not in following for phase, following in NEXT.items())


def test_saving_without_a_phase_keeps_it() -> None:
    world = World()
    world.do(OpenSession(session_id="s", agent="ann", without_lease=True))
    save(world, "planning")
    assert save(world, None) == "planning"


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(InvalidInput, match="it must be one of idle, planning"):
        SaveSession(session_id="s", lease_id=None, context=b"1", phase="thinking")  # type: ignore[arg-type]


@pytest.mark.parametrize("phase", PHASES)
def test_tasks_change_phases_only_as_allowed(phase: Phase) -> None:
    with_task = phase_with_task(phase)
    assert with_task is None or with_task in NEXT[phase]
    for outcome, status in [("done", "done"), ("failed", "queued"), ("failed", "dead"), ("deferred", "queued")]:
        after = phase_after_task(phase, outcome, status)  # type: ignore[arg-type]
        # A session with a task is never idle, so idle does not matter here.
        assert after is None or after in NEXT[phase] or phase == "idle"


@pytest.mark.parametrize(
    ("phase", "following"),
    [
        ("idle", {"planning", "executing", "done"}),
        ("planning", {"idle", "executing", "blocked", "done", "error"}),
        ("executing", {"idle", "planning", "blocked", "done", "error"}),
        ("blocked", {"idle", "planning", "executing", "done", "error"}),
        ("done", {"idle", "planning"}),
        ("error", {"idle", "planning"}),
    ],
)
def test_which_phases_may_follow(phase: Phase, following: set[Phase]) -> None:
    """As in the picture in docs/sessions-and-tasks.md."""
    assert NEXT[phase] == following


@pytest.mark.parametrize("phase", PHASES)
def test_interrupted_work_goes_on_and_everything_else_starts_with_planning(phase: Phase) -> None:
    assert phase_with_task(phase) == (None if phase in {"planning", "executing"} else "planning")


@pytest.mark.parametrize("phase", ["done", "error"])
def test_done_and_error_stay_whatever_becomes_of_the_task(phase: Phase) -> None:
    assert phase_after_task(phase, "deferred", "queued") is None
    assert phase_after_task(phase, "failed", "dead") is None
    assert phase_after_task(phase, "done", "done") is None
