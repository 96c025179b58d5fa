"""What a session is doing, as a state machine: which phase may follow which."""

from octostore.core.errors import Conflict
from octostore.core.model import Outcome, Phase, Session, Status

NEXT: dict[Phase, frozenset[Phase]] = {
    "idle": frozenset({"planning", "executing", "done"}),
    "planning": frozenset({"executing", "blocked", "idle", "done", "error"}),
    "executing": frozenset({"planning", "blocked", "idle", "done", "error"}),
    "blocked": frozenset({"planning", "executing", "idle", "done", "error"}),
    # An ended phase starts over with a plan, or not at all.
    "done": frozenset({"idle", "planning"}),
    "error": frozenset({"idle", "planning"}),
}


def next_phase(session: Session, wanted: Phase | None) -> Phase | None:
    """`wanted` if it is a permitted change; None if nothing changes. Raises `Conflict` if it is not permitted."""
    if wanted is None or wanted == session.phase:
        return None
    if wanted not in NEXT[session.phase]:
        may_be = ", ".join(sorted(NEXT[session.phase]))
        raise Conflict(
            f"session {session.session_id!r} is {session.phase}, and cannot be {wanted} next; allowed: {may_be}",
            status=session.phase,
        )
    return wanted


def phase_with_task(phase: Phase) -> Phase | None:
    """The phase with a new task: a session that was interrupted continues in its phase."""
    return None if phase in {"planning", "executing"} else "planning"


def phase_after_task(phase: Phase, outcome: Outcome, status: Status) -> Phase | None:
    """The phase after a task. If the agent itself has said that it is finished, that stands."""
    if phase in {"done", "error"}:
        return None
    after: Phase = "idle"
    if status == "dead":
        after = "error"
    elif outcome == "deferred":
        after = "blocked"
    return None if after == phase else after
