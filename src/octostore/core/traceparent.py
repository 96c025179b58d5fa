"""W3C trace contexts. Jobs and attempts carry them along; no rule looks inside."""

import re

from octostore.core.errors import InvalidInput

EXAMPLE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_is_valid = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}").fullmatch
_LENGTH = len(EXAMPLE)


def check_traceparent(field: str, traceparent: str) -> None:
    if not isinstance(traceparent, str) or not _is_valid(traceparent):
        raise InvalidInput(field, f"must be a W3C traceparent of version 00, for example {EXAMPLE}")


def traceparent_from(text: str | None) -> str | None:
    """Return the context in an HTTP header or the environment; None if it is malformed, which the W3C says to ignore.

    A later version is read as version 00.
    """
    if text is None:
        return None
    text = text.strip(" \t")
    version, rest = text[:2], text[_LENGTH:]
    if version not in {"00", "ff"} and re.fullmatch("[0-9a-f]{2}", version) and (not rest or rest[0] == "-"):
        text = "00" + text[2:_LENGTH]
    return text if _is_valid(text) else None
