"""Aligned columns, also with letters that are two cells wide."""

from collections.abc import Sequence
from unicodedata import category, east_asian_width

from octostore.core.visible import visible

Row = Sequence[str]
GAP = "  "
NARROWEST = 4
NAMES = {"JOB", "QUEUE", "SESSION"}
"""Headers of first columns that are never shortened: users copy their values into the next command."""
MARKS = {"Mn", "Me", "Cf"}
"""Unicode categories of zero-width characters."""


def as_table(header: Row, rows: Sequence[Row], width: int | None = None) -> list[str]:
    """If it is wider than `width`, shrink the widest columns; if that is not enough, cut off the last ones.

    Names are never shortened.
    """
    lines = [list(header), *(list(map(visible, row)) for row in rows)]
    widths = [max(cells(line[column]) for line in lines) for column in range(len(header))]
    if width is not None:
        first = 1 if header[0] in NAMES else 0
        spare = width - len(GAP) * (len(header) - 1)
        while sum(widths) > spare and (widest := max(widths[first:], default=0)) > NARROWEST:
            widths[widths.index(widest, first)] -= 1
        if first:
            width = max(width, widths[0] + len(f"{GAP}…"))
    drawn = [_line(line, widths) for line in lines]
    return drawn if width is None else [_fit(line, width).rstrip() for line in drawn]


def _line(line: Row, widths: Sequence[int]) -> str:
    return GAP.join(_fit(text, width) for text, width in zip(line, widths, strict=True)).rstrip()


def _fit(text: str, width: int) -> str:
    if cells(text) <= width:
        return text + " " * (width - cells(text))
    kept = ""
    for letter in text:
        if cells(kept + letter) > width - 1:
            break
        kept += letter
    return kept + "…" + " " * (width - 1 - cells(kept))


def cells(text: str) -> int:
    """Its width on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if category(letter) in MARKS else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)
