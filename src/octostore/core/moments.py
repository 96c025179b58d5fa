"""Time inside the core is whole milliseconds since 1970 (UTC); outside it is a `datetime`, written as RFC 3339."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, TypeAlias

import msgspec

from octostore.core.errors import InvalidInput
from octostore.core.limits import RUN_AT_MAX_MS

Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
"""A field of a reply: a time with its zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
SHORT_SECONDS = 10


def duration(seconds: float) -> str:
    """For people, in at most two units: `3m 12s`. Below ten seconds, to a tenth of a second."""
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


@lru_cache(maxsize=1_024)  # every reply of a batch contains the same few moments
def to_datetime(moment_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=moment_ms)


def to_datetime_or_none(moment_ms: int | None) -> datetime | None:
    return None if moment_ms is None else to_datetime(moment_ms)


def to_moment(field: str, value: datetime) -> int:
    """Raises `InvalidInput` for a time without a zone: guessing one would run jobs hours early or late."""
    if not isinstance(value, datetime):
        raise InvalidInput(field, f"must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None:
        raise InvalidInput(field, "must have a time zone, like datetime.now(UTC)")
    moment_ms = (value - _EPOCH) // _MILLISECOND
    if not 0 <= moment_ms <= RUN_AT_MAX_MS:
        raise InvalidInput(field, f"is {value.isoformat()}; it must be from 1970 to 9999")
    return moment_ms


def earliest(*moments: int | None) -> int | None:
    return min((moment for moment in moments if moment is not None), default=None)
