"""Values that callers choose, as JSON."""

import json
from typing import Any

from octostore.core.errors import InvalidInput
from octostore.core.limits import encode_utf8


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
    return encode_utf8(field, text)


def shorten(text: str, limit: int) -> str:
    """`text` within `limit` UTF-8 bytes, for what we write ourselves and do not want refused."""
    encoded = text.replace("\0", "").encode("utf-8", "replace")
    return text if len(encoded) <= limit and "\0" not in text else encoded[:limit].decode("utf-8", "ignore")
