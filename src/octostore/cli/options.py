"""Types of command-line arguments."""

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from octostore.core.errors import InvalidInput

LEASE_VARIABLE = "OCTOSTORE_LEASE_ID"
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def seconds(text: str) -> float:
    """`90`, `1.5`, `2m` or `1h30m`."""
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; use seconds, or 2m, 1h30m, 1d")
    return sum(float(part or 0) * size for part, size in zip(found.groups(), (86_400, 3_600, 60, 1), strict=True))


def moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; use the form 2026-11-16T06:00:00Z") from None
    if found.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone; append Z for UTC")
    return found


def json_value(text: str) -> Any:
    """JSON from the argument itself, from a file (`@FILE`), or from stdin (`-`)."""
    from octostore.core.encoding import decode_strictly  # noqa: PLC0415  # few commands take JSON

    try:
        if text == "-":
            document = b"" if sys.stdin is None else sys.stdin.buffer.read()
        elif text.startswith("@"):
            with open(text[1:], "rb") as file:
                document = file.read()
        else:
            document = os.fsencode(text)
        return decode_strictly("it", document)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text[1:]} cannot be read: {error.strerror}") from None
    except InvalidInput as error:
        is_text = text[:1].isalpha()
        hint = "; plain text needs quotes inside quotes: '\"text\"'" if is_text else ""
        raise argparse.ArgumentTypeError(f"{error}{hint}") from None


def integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def integer_from(low: int, high: int = sys.maxsize) -> Callable[[str], int]:
    def convert(text: str) -> int:
        number = integer(text)
        if not low <= number <= high:
            span = f"of at least {low}" if high == sys.maxsize else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {span}")
        return number

    return convert


positive_integer = integer_from(1)
exit_status = integer_from(0, 255)


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def signal_number(text: str) -> int:
    """`TERM`, `SIGTERM` or `15`."""
    if text.isdecimal():
        known = {int(one) for one in signal.Signals}
        if int(text) in known:
            return int(text)
    else:
        name = text.upper().removeprefix("SIG")
        found = signal.Signals.__members__.get(f"SIG{name}")
        if found is not None:
            return int(found)
    raise argparse.ArgumentTypeError(f"{text!r} is not a signal; try TERM or INT")


def add_lease_id(parser: argparse.ArgumentParser, whose: str) -> None:
    parser.add_argument(
        "--lease-id",
        metavar="L",
        help=f"the {whose}'s lease id; prefer {LEASE_VARIABLE}: other users can see command-line arguments",
    )


def lease_id_from(given: str | None) -> str | None:
    return (os.environ.get(LEASE_VARIABLE) if given is None else given) or None
