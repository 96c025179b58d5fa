"""SVG for light and dark pages, with a check that no text overlaps another."""

from typing import NamedTuple, TypeAlias
from xml.sax.saxutils import escape

Point: TypeAlias = tuple[float, float]

WIDTH = 880
FONT = "font-family:-apple-system,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif"
GLYPH = 0.56
"""The mean width of a character, as a share of the font size."""

# Per tone: the text or line and the fill behind it, for light pages and then for dark ones.
TONES = {
    "plain": (("#1f2328", "#f6f8fa"), ("#e6edf3", "#151b23")),
    "quiet": (("#59636e", "#eaeef2"), ("#9198a1", "#262c36")),
    "blue": (("#0550ae", "#ddf4ff"), ("#79c0ff", "#0c2d6b")),
    "green": (("#116329", "#dafbe1"), ("#7ee787", "#033a16")),
    "amber": (("#7d4e00", "#fff8c5"), ("#e3b341", "#3d2a00")),
    "red": (("#a40e26", "#ffebe9"), ("#ffa198", "#5a0b12")),
}
GROUND = ("#ffffff", "#0d1117")


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float
    what: str

    def overlaps(self, other: "Box") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def width_of(text: str, size: float) -> float:
    return len(text) * size * GLYPH


class Canvas:
    def __init__(self, title: str, description: str) -> None:
        self._title = title
        self._description = description
        self._parts: list[str] = []
        self._texts: list[Box] = []
        self._height = 0.0

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 13,
        tone: str = "plain",
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """`y` is the baseline."""
        width = width_of(text, size)
        left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
        self._place(Box(left, y - size * 0.75, left + width, y + size * 0.2, text))
        style = f' text-anchor="{anchor}"' + (' font-weight="600"' if bold else "")
        self._parts.append(
            f'<text class="{tone}" x="{x:g}" y="{y:g}" font-size="{size:g}"{style}>{escape(text)}</text>'
        )

    def heading(self, y: float, text: str, aside: str) -> None:
        self.text(20, y, text, size=15, bold=True)
        self.text(36 + width_of(text, 15), y, aside, size=12, tone="quiet")

    def rect(self, left: float, top: float, width: float, height: float, tone: str, *, radius: float = 6) -> None:
        self._reach(top + height)
        self._parts.append(
            f'<rect class="{tone}-box" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>'
        )

    def dashed(self, left: float, top: float, width: float, height: float) -> None:
        """A frame around a group."""
        self._reach(top + height)
        self._parts.append(
            f'<rect class="quiet-line" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="12" '
            'fill="none" stroke-dasharray="5 4"/>'
        )

    def circle(self, x: float, y: float, radius: float, tone: str) -> None:
        self._parts.append(f'<circle class="{tone}-box" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>')

    def line(self, points: list[Point], tone: str = "quiet", *, dashed: bool = False) -> None:
        self._reach(max(y for _, y in points))
        dash = ' stroke-dasharray="2 4"' if dashed else ""
        self._parts.append(f'<path class="{tone}-line" d="{_path(points)}" fill="none"{dash}/>')

    def arrow(self, points: list[Point], tone: str = "plain", *, both: bool = False) -> None:
        """Along `points`, with a head at the last (and, for `both`, the first)."""
        self.line(points, tone)
        ends = [(points[-2], points[-1]), *([(points[1], points[0])] if both else [])]
        for start, end in ends:
            self._parts.append(f'<path class="{tone}-head" d="{_head(start, end)}"/>')

    def node(self, x: float, y: float, name: str, note: str = "", *, tone: str = "plain", width: float = 104) -> None:
        """A state, by its centre."""
        self.rect(x - width / 2, y - 22, width, 44, tone)
        self.text(x, y + (5 if not note else -2), name, size=14, tone=tone, anchor="middle", bold=True)
        if note:
            self.text(x, y + 14, note, size=10.5, tone=tone, anchor="middle")

    def svg(self) -> str:
        height = self._height + 16
        size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
                "<!-- Drawn by docs/pictures/draw.py from a real store. Do not edit: run `make pictures`. -->",
                f'<title id="title">{escape(self._title)}</title>',
                f'<desc id="desc">{escape(self._description)}</desc>',
                f"<style>{_style()}</style>",
                f'<rect class="ground" width="{WIDTH}" height="{height:g}"/>',
                *self._parts,
                "</svg>\n",
            ]
        )

    def _place(self, box: Box) -> None:
        for other in self._texts:
            if box.overlaps(other):
                raise ValueError(f"{self._title}: {box.what!r} would overlap {other.what!r}")
        if box.left < 0 or box.right > WIDTH:
            raise ValueError(f"{self._title}: {box.what!r} would extend beyond the edge")
        self._texts.append(box)
        self._reach(box.bottom)

    def _reach(self, y: float) -> None:
        self._height = max(self._height, y)


def _path(points: list[Point]) -> str:
    return "M" + " L".join(f"{x:g} {y:g}" for x, y in points)


def _head(start: Point, end: Point, length: float = 9, half: float = 4) -> str:
    (x, y), dx, dy = end, end[0] - start[0], end[1] - start[1]
    size = (dx**2 + dy**2) ** 0.5
    dx, dy = dx / size, dy / size
    back_x, back_y = x - dx * length, y - dy * length
    corners = [end, (back_x - dy * half, back_y + dx * half), (back_x + dy * half, back_y - dx * half)]
    return _path([(round(px, 2), round(py, 2)) for px, py in corners]) + " Z"


def _style() -> str:
    modes = []
    for mode in (0, 1):
        rules = [f".ground{{fill:{GROUND[mode]}}}"]
        for tone, colours in TONES.items():
            front, behind = colours[mode]
            rules += [
                f".{tone}{{fill:{front}}}",
                f".{tone}-box{{fill:{behind};stroke:{front}}}",
                f".{tone}-line{{stroke:{front};stroke-width:1.4}}",
                f".{tone}-head{{fill:{front}}}",
            ]
        modes.append("".join(rules))
    light, dark = modes
    return f"text{{{FONT}}}{light}@media (prefers-color-scheme:dark){{{dark}}}"
