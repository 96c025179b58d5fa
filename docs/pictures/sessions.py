"""A session that is lost and resumed; and which phases may follow each other, from the rules themselves."""

import json
from typing import get_args

from docs.pictures.canvas import Canvas, Point
from docs.pictures.stage import Stage
from docs.pictures.timeline import Bar, Moment, Tick, draw_timeline
from octostore.core.model import Outcome, Phase, Status
from octostore.core.phases import NEXT, phase_after_task, phase_with_task

TTL = 30
BEATS = {"home": (10, 20), "work": (62, 72)}
GROUPS: dict[str, tuple[Phase, ...]] = {
    "idle": ("idle",),
    "active": ("planning", "executing", "blocked"),
    "ended": ("done", "error"),
}
TONES: dict[Phase, str] = {
    "idle": "plain",
    "planning": "blue",
    "executing": "blue",
    "blocked": "amber",
    "done": "green",
    "error": "red",
}
PLACES: dict[str, Point] = {
    "idle": (86, 200),
    "planning": (330, 140),
    "executing": (330, 260),
    "blocked": (500, 200),
    "done": (780, 140),
    "error": (780, 260),
}
# Left, top, width, height.
FRAMES = {"active": (252, 96, 326, 208), "ended": (706, 96, 148, 208)}
ROUTES: dict[tuple[str, str], list[Point]] = {
    ("idle", "planning"): [(138, 190), (278, 146)],
    ("idle", "executing"): [(138, 210), (278, 254)],
    ("idle", "done"): [(70, 178), (70, 40), (800, 40), (800, 118)],
    ("planning", "executing"): [(330, 162), (330, 238)],
    ("planning", "blocked"): [(382, 152), (448, 182)],
    ("executing", "blocked"): [(382, 248), (448, 218)],
    ("active", "idle"): [(252, 200), (138, 200)],
    ("active", "ended"): [(578, 200), (706, 200)],
    ("ended", "idle"): [(780, 304), (780, 340), (86, 340), (86, 222)],
    ("ended", "planning"): [(760, 96), (760, 66), (330, 66), (330, 118)],
}


def session_life() -> Canvas:
    with Stage() as stage:
        bars, moments = _lost_and_resumed(stage)
    words = " ".join(f"At {moment.at:g} seconds, {moment.text}." for moment in moments)
    canvas = Canvas(
        "The life of a session, and its phases",
        f"A timeline of a session with a TTL of {TTL} seconds. {words} Below it, the phases as a state machine. "
        + " ".join(f"From {phase} it can go to {_listed(after)}." for phase, after in NEXT.items()),
    )
    canvas.heading(
        28,
        "A session outlives its agent",
        f"TTL {TTL} s; the small lines are heartbeats; home is killed after its second",
    )
    ticks = [Tick(agent, at) for agent, beats in BEATS.items() for at in beats]
    bottom = draw_timeline(canvas, 46, seconds=85, step=10, bars=bars, moments=moments, ticks=ticks)
    canvas.heading(
        bottom + 40,
        "Its phases",
        "an arrow from or to a frame applies to every state in it",
    )
    _draw_phases(canvas, bottom + 40)
    return canvas


def _lost_and_resumed(stage: Stage) -> tuple[list[Bar], list[Moment]]:
    do = stage.orchestrator
    do.enqueue_task("translate", task_id="translate", session_id="book")
    _, task_id, token = stage.claim("book", "home", TTL)
    stage.now = 8
    do.checkpoint(task_id, token, {"done": 3})
    do.save_state("book", token, phase="executing", last_action="chapter 3", next_action="chapter 4", turn=3)
    for stage.now in BEATS["home"]:
        do.heartbeat("book", token)
    stage.now = 52
    do.stale_recovery("work")
    claim, task_id, token = stage.claim("book", "work", TTL)
    for stage.now in BEATS["work"]:
        do.heartbeat("book", token)
    stage.now = 78
    do.release_task("book", task_id, token)
    texts = {
        "session_opened": "{agent} claims the session and its task",
        "session_saved": "{agent} saves a checkpoint and its state (next: chapter 4); its phase is executing",
        "session_expired": "{agent}'s TTL has passed without a heartbeat: session and task are free",
        "session_closed": "{agent} finishes the task; the session is closed, and its context stays",
    }
    resumed = (
        f"work takes over, with the checkpoint {json.dumps(claim.checkpoint)}, "
        f"the state ({claim.phase}, turn {claim.context['turn']}) and the events since then"
    )
    bars, moments, phases = [], [], [(0.0, "idle")]
    opened_at = 0.0
    for event in stage.events():
        at = stage.seconds(event.at)
        if event.type in texts:
            lost = event.type == "session_expired"
            when = stage.seconds(event.data["ended_at"]) if lost else at
            tone = "red" if lost else {"home": "blue", "work": "green"}[event.agent or ""]
            text = resumed if event.data.get("resumed") else texts[event.type].format(agent=event.agent)
            moments.append(Moment(event.agent or "", when, tone, text))
        if event.type == "session_opened":
            opened_at = at
        elif event.type == "session_closed":
            bars.append(Bar("work", opened_at, at, "green", ["has the session"]))
        elif event.type == "session_expired":
            last, end = stage.seconds(event.data["heartbeat_at"]), stage.seconds(event.data["ended_at"])
            bars.append(Bar("home", opened_at, last, "blue", ["has the session"]))
            bars.append(Bar("home", last, end, "amber", ["no heartbeat; the lease still holds", "no heartbeat"]))
        if event.data.get("phase"):
            phases.append((at, event.data["phase"]))
    ends = [at for at, _ in phases[1:]] + [85.0]
    bars += [
        Bar("phase", start, end, {"idle": "quiet", "planning": "plain", "executing": "blue"}[phase], [phase])
        for (start, phase), end in zip(phases, ends, strict=True)
        if end > start
    ]
    return bars, moments


# The state machine


def _listed(phases: frozenset[Phase]) -> str:
    return ", ".join(phase for phase in get_args(Phase) if phase in phases)


def arrows() -> list[tuple[str, str]]:
    """The fewest arrows that show all of `NEXT`: from or to a whole group if that holds for all its members."""
    left = {(before, after) for before, allowed in NEXT.items() for after in allowed}
    found: list[tuple[str, str]] = []
    for source, befores in GROUPS.items():
        for target, afters in GROUPS.items():
            if source != target and {(before, after) for before in befores for after in afters} <= left:
                found.append((source, target))
                left -= {(before, after) for before in befores for after in afters}
        for after in sorted({after for _, after in left if after not in befores}):
            if len(befores) > 1 and {(before, after) for before in befores} <= left:
                found.append((source, after))
                left -= {(before, after) for before in befores}
    return found + sorted(left)


def _draw_phases(canvas: Canvas, top: float) -> None:
    def down(points: list[Point]) -> list[Point]:
        return [(x, y + top) for x, y in points]

    for name, (left, frame_top, width, height) in FRAMES.items():
        canvas.dashed(left, frame_top + top, width, height)
        canvas.text(left + width - 10, frame_top + top + height - 10, name, size=11, tone="quiet", anchor="end")
    drawn = arrows()
    for before, after in drawn:
        both = (after, before) in drawn
        if not both or (before, after) in ROUTES:
            canvas.arrow(down(ROUTES[before, after]), both=both)
    for phase, (x, y) in PLACES.items():
        canvas.node(x, y + top, phase, tone=TONES[phase])  # type: ignore[index]  # the places of phases
    y = top + 378
    for call, what in _what_the_store_does():
        canvas.text(20, y, call, size=12, bold=True)
        canvas.text(126, y, what, size=12)
        y += 20


def _what_the_store_does() -> list[tuple[str, str]]:
    """Phase changes that the store makes, from the functions that make them."""
    begins = {phase: phase_with_task(phase) for phase in get_args(Phase)}
    stays = [phase for phase, after in begins.items() if after is None]
    (planned,) = {after for after in begins.values() if after is not None}
    ends: dict[str, list[str]] = {}
    outcomes: list[tuple[str, Outcome, Status]] = [
        ("done", "done", "done"),
        ("failed", "failed", "queued"),
        ("released", "released", "queued"),
        ("deferred", "deferred", "queued"),
        ("the last failure", "failed", "dead"),
    ]
    for text, outcome, status in outcomes:
        ends.setdefault(phase_after_task("executing", outcome, status) or "executing", []).append(text)
    after_task = "; ".join(f"{phase} after {', '.join(texts)}" for phase, texts in ends.items())
    return [
        ("claim_task", f"changes it to {planned}, unless it is {' or '.join(stays)}"),
        ("release_task", f"changes it to {after_task}"),
        ("", "(a phase that the agent set to done or error stays)"),
        ("save_state", "makes any other change; an invalid one is refused"),
    ]
