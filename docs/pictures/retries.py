"""A failing task: attempts, growing waits, and a dead letter."""

from docs.pictures.canvas import Canvas
from docs.pictures.stage import Stage
from docs.pictures.timeline import Bar, Moment, draw_timeline
from octostore.core.retry import RetryPolicy

ATTEMPTS = 5
RUN = 3
TTL = 6
TONES = {"failed": "red", "expired": "amber", "done": "green"}


def retries() -> Canvas:
    with Stage() as stage:
        _fail_often(stage)
        bars, moments = _seen(stage)
    policy = RetryPolicy()
    rule = (
        f"{policy.base_ms / 1_000:g} s after the first failure, then {policy.factor:g} times the previous wait, "
        f"at most {policy.cap_ms / 60_000:g} min, minus up to {policy.jitter * 100:g}% at random"
    )
    words = " ".join(f"At {moment.at:g} seconds, {moment.text}." for moment in moments)
    canvas = Canvas(
        "Retries, from the first failure to a dead letter",
        f"A timeline of a task with {ATTEMPTS} attempts. Waits: {rule}. {words}",
    )
    canvas.text(20, 28, "Failed tasks are retried; dead letters wait for a person", size=15, bold=True)
    canvas.text(20, 50, f"Waits: {rule}", size=12, tone="quiet")
    draw_timeline(canvas, 64, seconds=70, step=10, bars=bars, moments=moments)
    return canvas


def _fail_often(stage: Stage) -> None:
    do = stage.orchestrator
    do.enqueue_task("build", task_id="build", max_attempts=ATTEMPTS)
    for attempt in range(1, ATTEMPTS + 1):
        _, task_id, token = stage.claim("s", "home", TTL)
        if attempt == 2:  # it dies
            stage.now += TTL
            stage.store.recover()
        else:
            stage.now += RUN
            do.release_task("s", task_id, token, outcome="failed", error="tests fail")
        stage.now = max(stage.now, _available_at(stage))
    stage.now += 6
    do.requeue("build", keep_attempts=True, reason="the network was down")
    stage.now += 1
    _, task_id, token = stage.claim("s", "home", TTL)
    stage.now += RUN
    do.release_task("s", task_id, token, outcome="failed", error="tests fail")
    stage.now += 6
    do.requeue("build", reason="the test was wrong")
    stage.now += 1
    _, task_id, token = stage.claim("s", "home", TTL)
    stage.now += RUN
    do.release_task("s", task_id, token)


def _available_at(stage: Stage) -> float:
    moment = stage.store.get_job("build").available_at
    return stage.seconds(moment) if moment else 0


def _seen(stage: Stage) -> tuple[list[Bar], list[Moment]]:
    bars: list[Bar] = []
    moments: list[Moment] = []
    dead_since = 0.0
    for event in stage.events():
        at, data = stage.seconds(event.at), event.data
        if event.type in TONES:
            tone = TONES[event.type]
            end, attempt = stage.seconds(data["ended_at"]), data["attempt"]
            bars.append(Bar("runs", stage.seconds(data["claimed_at"]), end, tone, []))
            waits = stage.seconds(data["available_at"]) - end
            why = f"no heartbeat for {TTL} s" if event.type == "expired" else data.get("error")
            text = f"attempt {attempt}: {event.type}" + (f" ({why})" if why else "")
            if data["status"] == "queued":
                bars.append(Bar("waits", end, end + waits, "plain", [f"{waits:.1f} s", f"{waits:.1f}"]))
                text += f"; next attempt in {waits:.1f} s"
            elif data["status"] == "dead":
                dead_since, text = end, f"{text}; none left, so the task is dead"
            moments.append(Moment("runs", end, tone, text))
        elif event.type == "requeued":
            bars.append(Bar("dead", dead_since, at, "quiet", []))
            how = f"with one more attempt, the {data['attempts'] + 1}th" if data["attempts"] else "with all attempts"
            moments.append(Moment("dead", at, "plain", f"a person requeues it ({event.reason}), {how}"))
    order = ["runs", "waits", "dead"]
    return sorted(bars, key=lambda bar: order.index(bar.row)), moments
