"""The layers, and where each kind of caller enters them."""

from docs.pictures.canvas import Canvas, width_of

CALLERS = {
    "shell, cron, CI": "octostore run",
    "coding agents": "MCP tools, hooks",
    "Python": "store.hold()",
    "curl": "POST /jobs/…/claim",
}
LEFT, RIGHT, TOP = 12, 868, 92
COLUMN = (RIGHT - LEFT) / len(CALLERS)
ROW, GAP, SIZE = 46, 12, 12
# The name, what it does, how many columns of callers it spans, and its tone.
LAYERS = [
    ("cli, mcp, agents", "commands, tools, hooks", 2, "plain"),
    ("client", "builds commands, heartbeats, stops before the lease ends", 3, "plain"),
    (
        "server",
        "HTTP: tokens, limits, waiting claims in line. Optional: the client can open a store itself.",
        4,
        "quiet",
    ),
]
STORES = ("stores", "one writer: all waiting commands in one transaction; wake-ups", "plain")
CORE = ("core", "decide, evolve", "amber")
DATABASES = {"SQLite": "one machine", "PostgreSQL": "many machines", "memory": "tests"}


def layers() -> Canvas:
    named = [*((name, text) for name, text, *_ in LAYERS), STORES[:2], CORE[:2]]
    canvas = Canvas(
        "The layers of OctoStore",
        f"Callers at the top: {', '.join(CALLERS)}. Below them the layers; each uses only those below it. "
        + " ".join(f"{name}: {text.removesuffix('.')}." for name, text in named)
        + f" The stores ask the core, and read and write {', '.join(DATABASES)}.",
    )
    bottoms = [TOP + (ROW + GAP) * number for number in (0, 0, 1, 2)]
    for number, ((name, note), bottom) in enumerate(zip(CALLERS.items(), bottoms, strict=True)):
        x = LEFT + COLUMN * (number + 0.5)
        canvas.node(x, 42, name, note, tone="blue", width=COLUMN - 16)
        canvas.arrow([(x, 64), (x, bottom - 2)], "quiet")
    y = float(TOP)
    for name, text, columns, tone in LAYERS:
        _box(canvas, (LEFT + 8, y, COLUMN * columns - 16), name, text, tone)
        y += ROW + GAP
    _box(canvas, (LEFT + 8, y, COLUMN * 3 - 16), *STORES)
    _box(canvas, (LEFT + COLUMN * 3 + 32, y, COLUMN - 40), *CORE)
    canvas.arrow([(LEFT + COLUMN * 3 - 6, y + ROW / 2), (LEFT + COLUMN * 3 + 30, y + ROW / 2)], "plain", both=True)
    y += ROW
    for number, (name, note) in enumerate(DATABASES.items()):
        x = LEFT + COLUMN * (number + 0.5)
        canvas.arrow([(x, y + 2), (x, y + 26)], "quiet", both=True)
        canvas.node(x, y + 50, name, note, tone="green", width=COLUMN - 16)
    canvas.text(LEFT + COLUMN * 3.5 + 12, y + 26, "no I/O, no clock, no SQL", size=11, tone="quiet", anchor="middle")
    return canvas


def _box(canvas: Canvas, place: tuple[float, float, float], name: str, text: str, tone: str) -> None:
    left, top, width = place
    canvas.rect(left, top, width, ROW, tone)
    canvas.text(left + 14, top + 28, name, size=14, tone=tone, bold=True)
    x = left + 14 + max(width_of(name, 14) * 1.1, 44) + 12
    canvas.text(x, top + 28, text, size=SIZE, tone=tone)
