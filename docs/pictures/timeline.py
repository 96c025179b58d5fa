"""Who had what, when: one row each, seconds from left to right, and numbered moments explained below."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from docs.pictures.canvas import WIDTH, Canvas, width_of

LEFT, RIGHT = 96, 24
ROW, BAR = 46, 28
NUMBER = 9


class Bar(NamedTuple):
    row: str
    start: float
    end: float
    tone: str
    labels: Sequence[str]
    """The first that fits is drawn; list the longest first."""


class Tick(NamedTuple):
    """A small recurring mark, like a heartbeat."""

    row: str
    at: float


class Moment(NamedTuple):
    row: str
    at: float
    tone: str
    text: str


def draw_timeline(
    canvas: Canvas,
    top: float,
    *,
    seconds: float,
    step: int,
    bars: list[Bar],
    moments: list[Moment],
    ticks: Sequence[Tick] = (),
) -> float:
    """Draw it, and return the y of its bottom."""
    rows = list(dict.fromkeys(bar.row for bar in bars))
    scale = (WIDTH - LEFT - RIGHT) / seconds

    def x_of(at: float) -> float:
        return round(LEFT + at * scale, 2)

    middle = {row: top + ROW * number + ROW / 2 for number, row in enumerate(rows)}
    bottom = top + ROW * len(rows)
    for at in range(0, round(seconds) + 1, step):
        canvas.line([(x_of(at), top), (x_of(at), bottom + 4)], dashed=True)
        canvas.text(x_of(at), bottom + 18, f"{at} s", size=11, tone="quiet", anchor="middle")
    for row in rows:
        canvas.text(LEFT - 12, middle[row] + 4, row, size=13, anchor="end", bold=True)
    for bar in bars:
        _draw_bar(canvas, bar, x_of(bar.start), x_of(bar.end), middle[bar.row])
    for tick in ticks:
        x, y = x_of(tick.at), middle[tick.row] + BAR / 2
        canvas.line([(x, y), (x, y + 6)], "plain")
    _number(canvas, moments, middle, x_of)
    return _explain(canvas, moments, bottom + 44)


def _draw_bar(canvas: Canvas, bar: Bar, left: float, right: float, middle: float) -> None:
    canvas.rect(left, middle - BAR / 2, round(right - left, 2), BAR, bar.tone, radius=4)
    label = next((label for label in bar.labels if width_of(label, 11.5) < right - left - 10), None)
    if label is not None:
        canvas.text(round((left + right) / 2, 2), middle + 4, label, size=11.5, tone=bar.tone, anchor="middle")


def _number(canvas: Canvas, moments: list[Moment], middle: dict[str, float], x_of: Callable[[float], float]) -> None:
    """On the upper edge of the row; numbers that would touch move to the right."""
    last: dict[str, float] = {}
    for number, moment in enumerate(moments, 1):
        x = max(x_of(moment.at), last.get(moment.row, -99) + 2 * NUMBER + 1)
        last[moment.row] = x
        y = middle[moment.row] - BAR / 2 - 3
        canvas.circle(x, y, NUMBER, moment.tone)
        canvas.text(x, y + 3.5, str(number), size=10, tone=moment.tone, anchor="middle", bold=True)


def _explain(canvas: Canvas, moments: list[Moment], top: float) -> float:
    y = top
    for number, moment in enumerate(moments, 1):
        canvas.circle(LEFT - 46, y - 4, NUMBER, moment.tone)
        canvas.text(LEFT - 46, y - 0.5, str(number), size=10, tone=moment.tone, anchor="middle", bold=True)
        canvas.text(LEFT + 12, y, f"{round(moment.at, 1):g} s", size=12, tone="quiet", anchor="end")
        canvas.text(LEFT + 24, y, moment.text, size=12)
        y += 22
    return y - 22 + 6
