"""Tables for people."""

from collections.abc import Sequence


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column names the row; the others are numbers, aligned right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    print(title)
    for line in (header, ["-" * width for width in widths], *rows):
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print("  " + "  ".join([first.strip().ljust(widths[0]), *others]))
    print(flush=True)
