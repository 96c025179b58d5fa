"""Times and values in words."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from octostore.core.moments import duration as duration  # noqa: PLC0414  # for all who import `words`
from octostore.core.visible import visible, visible_json

if TYPE_CHECKING:
    from octostore.core.replies import ClaimReply, JobOwner


GLIMPSE = 200
"""How many characters of a document are shown to people."""


def typed(text: str) -> str:
    """As it is typed into a shell: in quotes, where it would mean something else there."""
    from shlex import quote  # noqa: PLC0415  # not everybody is shown a command

    # zsh takes `=name` for the path of a program.
    return f"'{text}'" if text.startswith("=") and "'" not in text else quote(text)


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


def whereabouts(claim: "JobOwner | ClaimReply") -> str:
    return f"on {claim.host}" + ("" if claim.pid is None else f", process {claim.pid}")


def progress(claim: "JobOwner", now: datetime) -> str:
    """What was last reported, and how long ago; empty if nothing was."""
    reported = claim.progress
    if reported is None:
        return ""
    percent = "" if reported.percent is None else f"{reported.percent:g} %"
    said = " ".join(filter(None, (percent, gist(reported.note or ""))))
    return f"{said} ({ago(reported.at, now)})".strip()


def as_json(value: Any) -> str:
    return visible_json(msgspec.json.format(msgspec.json.encode(value), indent=0).decode())


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def glimpse(value: Any, length: int = GLIMPSE, command: str = "--json") -> str:
    """All of a small document, and the beginning of a large one, with its size and the `command` that shows it."""
    text = as_json(value)
    if len(text) <= length:
        return text
    size = len(msgspec.json.encode(value))
    return f"{shortened(text, GLIMPSE)} ({size:,} bytes; {command} shows all of it)"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def gist(text: str) -> str:
    """What fits in one line: the first, and the last, which is where errors say what they are about."""
    found = [line for line in map(str.strip, lines(text)) if line]
    return " … ".join(found if len(found) <= 2 else [found[0], found[-1]])  # noqa: PLR2004


def lines(text: str) -> list[str]:
    """All of it, with nothing hidden in it."""
    return [visible(line.replace("\t", " ").rstrip()) for line in text.splitlines()]
