"""Values that callers choose, as JSON: what is written is what will be read, here and by anybody else."""

import json
import math
from collections import Counter
from typing import Any, NoReturn

import msgspec

from octostore.core.errors import InvalidInput
from octostore.core.limits import JSON_DEPTH, JSON_INTEGER_MAX, encode_utf8


def encode_json(field: str, value: Any) -> bytes | None:
    """`value` as JSON, None as nothing. Raises `InvalidInput` for what JSON cannot say exactly, such as NaN."""
    return None if value is None else encode_any(field, value)


def encode_any(field: str, value: Any) -> bytes:
    """The same where null is a value, too."""
    try:
        # The standard encoder, because it refuses NaN; faster ones turn it into null and nobody notices.
        text = _to_text(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(field, f"cannot be written as JSON: {error}") from None
    encoded = encode_utf8(field, text)
    check_exact(field, encoded, value)
    return encoded


def decode_strictly(field: str, document: bytes, depth: int = JSON_DEPTH) -> Any:
    """The value of a JSON text from outside, unless somebody else could read it differently."""
    value = _read_quickly(document, depth)
    return _read_strictly(field, document, depth) if value is _UNSURE else value


def _read_quickly(document: bytes, depth: int = JSON_DEPTH) -> Any:
    """The same in half the time or less; `_UNSURE` of all that may be wrong."""
    if b"\\u" in document or _has_long_number(document):
        return _UNSURE
    try:
        value = _decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _UNSURE
    if type(value) not in _CONTAINERS:
        return _UNSURE
    # Of a name that is there twice the last value wins here. But then there are more colons than names, as there are if
    # one is in a text.
    return value if _count_names(value, depth) == document.count(b":") else _UNSURE


def _count_names(container: Any, depth: int) -> float:
    """How many there are in it and in all that it contains; too many if it is nested deeper than that."""
    if depth == 0:
        return math.inf
    is_object = type(container) is dict
    count: float = len(container) if is_object else 0
    for item in container.values() if is_object else container:
        if type(item) in _CONTAINERS:
            count += _count_names(item, depth - 1)
    return count


def _read_strictly(field: str, document: bytes, depth: int = JSON_DEPTH) -> Any:
    if document.startswith(b"\xef\xbb\xbf"):
        raise InvalidInput(field, "begins with a byte order mark, which JSON does not have")
    try:
        value = _from_text(document.decode())
    except UnicodeDecodeError as error:
        raise InvalidInput(field, f"is not UTF-8 (at byte {error.start})") from None
    except RecursionError:
        raise _too_deep(field) from None
    except ValueError as error:
        raise InvalidInput(field, f"is not valid JSON: {error}") from None
    check_exact(field, document, value, depth)
    return value


def check_exact(field: str, document: bytes, value: Any, depth: int = JSON_DEPTH) -> None:
    """Refuse what would be lost for its depth, or rounded. `value` is what `document` says, so there are no circles."""
    # Most documents show at a glance that they cannot be either.
    if document.count(b"[") + document.count(b"{") <= depth and not _has_long_number(document):
        return
    level = [value]
    for _ in range(depth + 1):
        if any(type(item) is int and abs(item) > JSON_INTEGER_MAX for item in level):
            raise InvalidInput(field, "has a whole number beyond 2^53, which many JSON readers round; give it as text")
        containers = [item for item in level if isinstance(item, dict | list | tuple)]
        if not containers:
            return
        level = [item for outer in containers for item in (outer.values() if isinstance(outer, dict) else outer)]
    raise _too_deep(field)


def _has_long_number(document: bytes) -> bool:
    return _LONG_NUMBER in document.translate(_DIGITS_AS_ZEROS)


def _too_deep(field: str) -> InvalidInput:
    return InvalidInput(field, f"is nested deeper than {JSON_DEPTH} levels", limit=JSON_DEPTH)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"it has the name {twice!r} twice in one object")
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"it has {constant}, which is no JSON")


def shorten(text: str, limit: int) -> str:
    """`text` within `limit` UTF-8 bytes, for what we write ourselves and do not want refused."""
    return text.replace("\0", "").encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


_LONG_NUMBER = b"0" * 16  # as long as 2^53
_DIGITS_AS_ZEROS = bytes.maketrans(b"0123456789", b"0" * 10)
_CONTAINERS = {dict, list}
_UNSURE = object()
_decode = msgspec.json.Decoder().decode
# Made once: the standard functions make a new one for every call with options.
_to_text = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode
_from_text = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant).decode
