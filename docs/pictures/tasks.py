"""The life of a task: every change of status, as a store made it."""

from docs.pictures.canvas import Canvas, Point
from docs.pictures.stage import Stage
from octostore.core.events import Event
from octostore.core.model import Outcome

Way = tuple[str, str]

PLACES: dict[str, tuple[Point, str, str]] = {
    "free": ((76, 170), "only a name", "quiet"),
    "queued": ((310, 170), "waits for its turn", "plain"),
    "claimed": ((610, 170), "has one owner", "blue"),
    "done": ((804, 170), "has its result", "green"),
    "dead": ((460, 350), "waits for a person", "red"),
}
# The line, the position of its label, and the label's anchor.
ROUTES: dict[Way, tuple[list[Point], Point, str]] = {
    ("free", "queued"): ([(132, 170), (248, 170)], (190, 160), "middle"),
    ("queued", "claimed"): ([(372, 158), (548, 158)], (460, 148), "middle"),
    ("claimed", "queued"): ([(548, 184), (372, 184)], (460, 204), "middle"),
    ("claimed", "done"): ([(672, 170), (742, 170)], (707, 160), "middle"),
    ("claimed", "dead"): ([(610, 192), (610, 350), (522, 350)], (620, 276), "start"),
    ("queued", "dead"): ([(296, 192), (296, 358), (398, 358)], (288, 276), "end"),
    ("dead", "queued"): ([(398, 342), (324, 342), (324, 192)], (332, 276), "start"),
    ("done", "queued"): ([(804, 148), (804, 84), (310, 84), (310, 148)], (557, 76), "middle"),
    ("dead", "free"): ([(460, 372), (460, 410), (76, 410), (76, 192)], (268, 402), "middle"),
}


def task_life() -> Canvas:
    ways = _ways()
    changes = "; ".join(f"from {before} to {after}: {', '.join(types)}" for (before, after), types in ways.items())
    canvas = Canvas(
        "The life of a task", f"A state machine of a task's status, with the events that change it: {changes}."
    )
    canvas.heading(28, "The life of a task", "its status, and the events that change it")
    for way, types in ways.items():
        points, (x, y), anchor = ROUTES[way]  # if one is missing, draw it
        canvas.arrow(points)
        for number, line in enumerate(_label(way, types)):
            canvas.text(x, y + 15 * number, line, size=12, tone="quiet", anchor=anchor)
    for status, ((x, y), note, tone) in PLACES.items():
        canvas.node(x, y, status, note, tone=tone, width=112 if status == "free" else 124)
    return canvas


def _label(way: Way, types: list[str]) -> list[str]:
    if way == ("claimed", "dead"):
        return [" or ".join(types) + ",", "with no attempts left"]
    if way == ("claimed", "queued"):
        retried = [name for name in types if name in {"failed", "expired"}]
        others = [name for name in types if name not in retried]
        return [
            f"{', '.join(others)};",
            f"{', '.join(retried)}: uses up an attempt,",
            "then waits for its backoff",
        ]
    return [", ".join(types)]


def _ways() -> dict[Way, list[str]]:
    """(before, after) -> event types, in the order they happened."""
    ways: dict[Way, list[str]] = {}
    with Stage() as stage:
        _live(stage)
        status: dict[str, str] = {}
        for event in stage.events():
            if event.job_id is not None:
                after = _status_after(event)
                types = ways.setdefault((status.get(event.job_id, "free"), after), [])
                if event.type not in types:
                    types.append(event.type)
                status[event.job_id] = after
    return ways


def _status_after(event: Event) -> str:
    implied = {"claimed": "claimed", "cancelled": "dead", "discarded": "free"}
    return implied.get(event.type) or str(event.data["status"])


def _live(stage: Stage) -> None:
    """Everything that can happen to a task."""
    do = stage.orchestrator

    def run(task_id: str, outcome: Outcome | None) -> None:
        """None: the worker dies."""
        stage.now += 3_600
        _, claimed, token = stage.claim(f"for-{task_id}", "home", ttl=10)
        if claimed != task_id:
            raise AssertionError(f"{claimed} came before {task_id}")
        if outcome is not None:
            do.release_task(f"for-{task_id}", task_id, token, outcome=outcome)
        else:
            stage.now += 60
            stage.store.recover()

    endings: list[Outcome | None] = ["released", "deferred", "failed", None, "done"]
    do.enqueue_task("task", task_id="lucky", max_attempts=9, session_id="for-lucky")
    for outcome in endings:
        run("lucky", outcome)
    do.requeue("lucky")
    stage.claim("for-lucky", "home")
    stage.store.force_release("lucky")
    do.enqueue_task("task", task_id="unlucky", max_attempts=1, session_id="for-unlucky")
    for outcome in ("failed", None):
        run("unlucky", outcome)
        do.requeue("unlucky")
    stage.store.cancel("unlucky")
    do.discard("unlucky")
