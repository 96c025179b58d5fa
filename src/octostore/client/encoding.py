"""Values that callers choose, as JSON."""

import json
from typing import Any

from octostore.core.errors import InvalidInput
from octostore.core.limits import JSON_DEPTH, encode_utf8


def encode_json(field: str, value: Any) -> bytes | None:
    """`value` as JSON, None as nothing. Raises `InvalidInput` for what JSON cannot say exactly, such as NaN."""
    return None if value is None else encode_any(field, value)


def encode_any(field: str, value: Any) -> bytes:
    """The same where null is a value, too."""
    try:
        # The standard encoder, because it refuses NaN; faster ones turn it into null and nobody notices.
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(field, f"cannot be written as JSON: {error}") from None
    if _is_deeper(value, JSON_DEPTH):
        raise InvalidInput(field, f"is nested deeper than {JSON_DEPTH} levels", limit=JSON_DEPTH)
    return encode_utf8(field, text)


def _is_deeper(value: Any, limit: int) -> bool:
    """What can be written but not read back for its depth would be lost. No circles here: JSON refused them."""
    containers = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(limit):
        inner = (item for outer in containers for item in (outer.values() if isinstance(outer, dict) else outer))
        containers = [item for item in inner if isinstance(item, dict | list | tuple)]
        if not containers:
            return False
    return True


def shorten(text: str, limit: int) -> str:
    """`text` within `limit` UTF-8 bytes, for what we write ourselves and do not want refused."""
    return text.replace("\0", "").encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
