"""A live session is handed over: who has the lease, and which claim the task has."""

from docs.pictures.canvas import Canvas
from docs.pictures.stage import Stage
from docs.pictures.timeline import Bar, Moment, draw_timeline
from octostore.core.errors import LeaseLost

TTL = 30


def handover() -> Canvas:
    with Stage() as stage:
        refusal = _hand_over(stage)
        bars, moments = _seen(stage)
    moments = sorted([*moments, refusal], key=lambda moment: moment.at)
    words = " ".join(f"At {moment.at:g} seconds, {moment.text}." for moment in moments)
    canvas = Canvas("A session is handed over", f"A timeline of a session that home hands over to work. {words}")
    canvas.heading(28, "A hand-over leaves no gap", f"TTL {TTL} s, restarted by the hand-over")
    draw_timeline(canvas, 46, seconds=50, step=10, bars=bars, moments=moments)
    return canvas


def _hand_over(stage: Stage) -> Moment:
    """Return what home gets if it writes after the hand-over."""
    do = stage.orchestrator
    do.enqueue_task("proofread", task_id="proofread", session_id="book")
    _, task_id, old = stage.claim("book", "home", TTL)
    stage.now = 12
    do.checkpoint(task_id, old, {"done": 1})
    do.save_state("book", old, phase="executing", next_action="chapter 2", turn=1)
    stage.now = 18
    do.hand_over("book", "work", "chapter 2 is next", lock_token=old)
    stage.now = 22
    try:
        do.heartbeat("book", old)
    except LeaseLost as lost:
        text = f"a late heartbeat from home is refused: {type(lost).__name__}"
        refusal = Moment("home", stage.now, "red", text)
    else:
        raise AssertionError("the old lease should have ended")
    stage.now = 27
    _, task_id, new = stage.claim("book", "work", TTL)
    stage.now = 44
    do.release_task("book", task_id, new)
    return refusal


def _seen(stage: Stage) -> tuple[list[Bar], list[Moment]]:
    bars: list[Bar] = []
    moments: list[Moment] = []
    since = offered_at = 0.0
    claims: list[Bar] = []
    for event in stage.events():
        at, data, agent = stage.seconds(event.at), event.data, event.agent or ""
        if event.type == "session_opened":
            if data.get("resumed"):
                bars.append(Bar(agent, offered_at, at, "amber", ["can accept it", "offered"]))
                moments.append(
                    Moment(agent, at, "green", f"{agent} accepts, and gets its own lease for session and task")
                )
            else:
                moments.append(Moment(agent, at, "blue", f"{agent} claims the session and its task"))
            since = at
        elif event.type == "session_handed_over":
            bars.append(Bar(agent, since, at, "blue", ["has the lease"]))
            offered_at = at
            text = f'{agent} hands over to {data["to_agent"]}, with the note "{data["note"]}"; its own lease ends'
            moments.append(Moment(agent, at, "blue", text))
        elif event.type == "session_closed":
            bars.append(Bar(agent, since, at, "green", ["has the lease"]))
        elif "fencing_token" in data:
            tone = {"home": "blue", "work": "green"}[agent]
            label = f"{agent}'s claim: token {data['fencing_token']}, attempt {data['attempt']}"
            claims.append(Bar("task", stage.seconds(data["claimed_at"]), at, tone, [label]))
            if event.type == "done":
                moments.append(
                    Moment(
                        "task",
                        at,
                        "green",
                        f"{agent} finishes it, in attempt {data['attempt']}: a hand-over does not count as one",
                    )
                )
            else:
                moments.append(
                    Moment(
                        "task",
                        at,
                        "quiet",
                        f"the claim ends as {event.type} ({event.reason}), and a new one begins, with a higher token",
                    )
                )
    return [*bars, *claims], moments
