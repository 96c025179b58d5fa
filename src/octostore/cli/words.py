"""Times and values for people."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from octostore.core.moments import duration as duration  # noqa: PLC0414  # re-exported
from octostore.core.visible import visible, visible_json

if TYPE_CHECKING:
    from octostore.core.replies import ClaimReply, JobOwner


ADVICE = "octostore:   "
"""How each line of advice after an error begins: see `failures`."""
PREVIEW_LENGTH = 200
"""Characters of a document to show."""


def shell_quote(text: str) -> str:
    """Quote it for a shell, if necessary."""
    from shlex import quote  # noqa: PLC0415  # rarely needed

    # zsh expands `=name` to the path of a program.
    return f"'{text}'" if text.startswith("=") and "'" not in text else quote(text)


def session_name(session_id: str, principal: str | None, reader: str) -> str:
    """As `reader` would type it."""
    return session_id if principal in {None, reader} else f"{principal}/{session_id}"


def seconds_between(earlier: datetime, later: datetime) -> float:
    return (later - earlier) / timedelta(seconds=1)


def ago(moment: datetime, now: datetime) -> str:
    seconds = int(seconds_between(moment, now))
    return f"{duration(seconds)} ago" if seconds > 0 else "just now"


def until(moment: datetime, now: datetime) -> str:
    return duration(max(0, int(seconds_between(now, moment))))


def wait_until(moment: datetime, now: datetime) -> str | None:
    """None for less than a second: the store's clock may be slightly ahead of this machine's."""
    return until(moment, now) if seconds_between(now, moment) >= 1 else None


def clock(moment: datetime, now: datetime | None = None) -> str:
    """The time, with the date unless it is today."""
    is_today = now is not None and moment.date() == now.date()
    return f"{moment:%H:%M:%S}" if is_today else f"{moment:%Y-%m-%d %H:%M:%S}"


def now() -> datetime:
    return datetime.now(UTC)


def host_and_process(claim: "JobOwner | ClaimReply") -> str:
    return f"on {claim.host}" + ("" if claim.pid is None else f", process {claim.pid}")


def progress(claim: "JobOwner", now: datetime) -> str:
    """The last progress report, and its age; empty if there is none."""
    reported = claim.progress
    if reported is None:
        return ""
    percent = "" if reported.percent is None else f"{reported.percent:g}%"
    said = " ".join(filter(None, (percent, one_line(reported.note or ""))))
    return f"{said} ({ago(reported.at, now)})".strip()


def as_json(value: Any) -> str:
    return visible_json(msgspec.json.format(msgspec.json.encode(value), indent=0).decode())


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def preview(value: Any, length: int = PREVIEW_LENGTH, command: str = "--json") -> str:
    """A small document in full; of a large one, the start, its size, and the `command` that shows the rest."""
    text = as_json(value)
    if len(text) <= length:
        return text
    size = len(msgspec.json.encode(value))
    return f"{shorten(text, PREVIEW_LENGTH)} ({size:,} bytes; {command} shows all of it)"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def join_words(names: Iterable[str], conjunction: str) -> str:
    """`read, claim and admin`."""
    *others, last = names
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def one_line(text: str) -> str:
    """The first and the last line of a text: errors usually say what is wrong in the last one.

    Our own errors end with where and what next, which is left out.
    """
    found = [line for line in map(str.strip, visible_lines(text)) if line and not line.startswith(ADVICE)]
    return " … ".join(found if len(found) <= 2 else [found[0], found[-1]])  # noqa: PLR2004


def visible_lines(text: str) -> list[str]:
    """All lines, with control characters escaped."""
    return [visible(line.replace("\t", " ").rstrip()) for line in text.splitlines()]
