"""Times and values in words."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
SHORT_SECONDS = 10
_TERMINAL_SEQUENCE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -~])"


def duration(seconds: float) -> str:
    """Two units at most: `3m 12s`. Below ten seconds with a tenth, where that is still a difference."""
    if abs(seconds) < SHORT_SECONDS and round(seconds, 1) != int(seconds):
        return f"{seconds:.1f}s"
    left = int(seconds)
    first = next((place for place, (size, _) in enumerate(_UNITS) if left >= size), len(_UNITS) - 1)
    parts: list[str] = []
    for size, unit in _UNITS[first : first + 2]:
        if left >= size or not parts:
            parts.append(f"{left // size}{unit}")
            left %= size
    return " ".join(parts)


def session(session_id: str, principal: str | None, reader: str) -> str:
    """As `reader` types it."""
    return session_id if principal in {None, reader} else f"{principal}/{session_id}"


def seconds_between(earlier: datetime, later: datetime) -> float:
    return (later - earlier) / timedelta(seconds=1)


def ago(moment: datetime, now: datetime) -> str:
    seconds = int(seconds_between(moment, now))
    return f"{duration(seconds)} ago" if seconds > 0 else "now"


def until(moment: datetime, now: datetime) -> str:
    return duration(max(0, int(seconds_between(now, moment))))


def clock(moment: datetime, now: datetime | None = None) -> str:
    """The time, with the date where it is not today's."""
    is_today = now is not None and moment.date() == now.date()
    return f"{moment:%H:%M:%S}" if is_today else f"{moment:%Y-%m-%d %H:%M:%S}"


def now() -> datetime:
    return datetime.now(UTC)


def as_json(value: Any) -> str:
    """With escapes for what a terminal would obey."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    return text if text.isprintable() else "".join(one if one.isprintable() else _escaped(one) for one in text)


def _escaped(letter: str) -> str:
    import json  # noqa: PLC0415  # which few values need

    return json.dumps(letter)[1:-1]


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def gist(text: str) -> str:
    """What fits in one line: the first, and the last, which is where errors say what they are about.

    Others have written it, so nothing is left in it that a terminal would obey.
    """
    found = [line for line in map(str.strip, lines(text)) if line]
    return " … ".join(found if len(found) <= 2 else [found[0], found[-1]])  # noqa: PLR2004


def lines(text: str) -> list[str]:
    """All of it, with nothing left that a terminal would obey."""
    return [_plain(line) for line in re.sub(_TERMINAL_SEQUENCE, "", text).splitlines()]


def _plain(line: str) -> str:
    return "".join(" " if one.isspace() else one for one in line if one.isprintable() or one.isspace()).rstrip()
