"""What a session is doing, as a state machine: which phase may follow on which."""

from octostore.core.errors import Conflict
from octostore.core.model import Outcome, Phase, Session, Status

NEXT: dict[Phase, frozenset[Phase]] = {
    "idle": frozenset({"planning", "executing", "done"}),
    "planning": frozenset({"executing", "blocked", "idle", "done", "error"}),
    "executing": frozenset({"planning", "blocked", "idle", "done", "error"}),
    "blocked": frozenset({"planning", "executing", "idle", "done", "error"}),
    # What is over begins anew with a plan, or not at all.
    "done": frozenset({"idle", "planning"}),
    "error": frozenset({"idle", "planning"}),
}


def next_phase(session: Session, wanted: Phase | None) -> Phase | None:
    """`wanted`, if that is a change and may follow; None if nothing changes. Raises `Conflict` for what may not."""
    if wanted is None or wanted == session.phase:
        return None
    if wanted not in NEXT[session.phase]:
        may_be = ", ".join(sorted(NEXT[session.phase]))
        raise Conflict(
            f"session {session.session_id!r} is {session.phase}, and cannot be {wanted} next: only {may_be}",
            status=session.phase,
        )
    return wanted


def phase_with_task(phase: Phase) -> Phase | None:
    """What it becomes with a new task: one that was interrupted in the middle goes on where it was."""
    return None if phase in {"planning", "executing"} else "planning"


def phase_after_task(phase: Phase, outcome: Outcome, status: Status) -> Phase | None:
    """What it becomes after a task. Where the agent has said itself that it is over, that stands."""
    if phase in {"done", "error"}:
        return None
    after: Phase = "idle"
    if status == "dead":
        after = "error"
    elif outcome == "deferred":
        after = "blocked"
    return None if after == phase else after
