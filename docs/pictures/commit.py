"""Group commit: three concurrent commands become one transaction and consecutive events."""

from docs.pictures.canvas import Canvas
from docs.pictures.stage import Stage
from octostore.core.events import Event

CALLERS = {
    "agent-2": ("claim_job", "build-7", "blue"),
    "agent-3": ("enqueue", "build-8", "plain"),
    "agent-4": ("claim_job", "build-7", "red"),
}
STEPS = [
    ("load", "the rows these commands need"),
    ("sweep", "record leases that have expired"),
    ("decide", "each command, in order"),
    ("save", "changed rows and new events"),
    ("commit", "to disk"),
]
LEFT, MIDDLE, RIGHT = 96, 340, 590


def commit() -> Canvas:
    with Stage() as stage:
        replies, events = _together(stage)
    log = [_words(event) for event in events]
    wanted = ", ".join(f"{who}: {what} {job}" for who, (what, job, _) in CALLERS.items())
    steps = ", ".join(f"{step} ({text})" for step, text in STEPS)
    canvas = Canvas(
        "One transaction for all waiting commands",
        f"Three callers at the same time: {wanted}. The writer runs them as one transaction: {steps}. "
        f"The log then has: {'; '.join(log)}. Each caller gets its reply after the commit: {', '.join(replies)}.",
    )
    for x, title in ((20, "Callers"), (MIDDLE - 110, "One transaction"), (RIGHT, "The log")):
        canvas.text(x, 28, title, size=15, bold=True)
    for number, ((who, (what, job, tone)), reply) in enumerate(zip(CALLERS.items(), replies, strict=True)):
        y = 76 + 66 * number
        canvas.node(LEFT, y, who, f"{what} {job}", tone=tone, width=152)
        canvas.arrow([(LEFT + 78, y - 6), (MIDDLE - 112, 142 - 6 + (y - 142) * 0.6)], "quiet")
        canvas.text(LEFT, y + 35, f"reply: {reply}", size=11, tone=tone, anchor="middle")
    canvas.dashed(MIDDLE - 110, 44, 230, 204)
    for number, (step, text) in enumerate(STEPS):
        y = 70 + 38 * number
        canvas.text(
            MIDDLE - 94, y, f"{number + 1}. {step}", size=13, bold=True, tone="amber" if step == "commit" else "plain"
        )
        canvas.text(MIDDLE - 94, y + 15, text, size=11, tone="quiet")
    canvas.arrow([(MIDDLE + 122, 142), (RIGHT - 10, 142)], "plain")
    for number, text in enumerate(log):
        y = 50 + 66 * number
        canvas.rect(RIGHT, y, 270, 46, "green")
        canvas.text(
            RIGHT + 14, y + 20, f"seq {events[number].seq}  {events[number].type}", size=13, tone="green", bold=True
        )
        canvas.text(RIGHT + 14, y + 37, text, size=11, tone="green")
    return canvas


def _together(stage: Stage) -> tuple[list[str], list[Event]]:
    """The replies, and the events they caused. agent-1 had the job, and has died."""
    store = stage.store
    store.claim_job("build-7", owner="agent-1", ttl=30)
    last = stage.events()[-1].seq
    stage.now = 31
    commands = [
        {"command": what, **({"kind": "build"} if what == "enqueue" else {"owner": who}), "job_id": job}
        for who, (what, job, _) in CALLERS.items()
    ]
    replies = store.batch(commands)
    said = [getattr(reply, "status", "queued") for reply in replies]
    return said, list(store.events(after=last))


def _words(event: Event) -> str:
    data = event.data
    if event.type == "expired":
        missed = (event.reason or "").partition(",")[0]
        return f"{event.job_id}: {missed} ({data['owner']})"
    if event.type == "claimed":
        return f"{event.job_id}: {data['owner']}, after {data['took_over_from']}"
    return f"{event.job_id}: queued in {event.queue}"
