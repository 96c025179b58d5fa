"""Values that callers choose, as JSON: what is written is what every reader gets back."""

from collections import Counter
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from octostore.core.errors import InvalidInput
from octostore.core.limits import JSON_DEPTH, JSON_INTEGER_MAX, encode_utf8

if TYPE_CHECKING:
    import json


def encode_json(field: str, value: Any) -> bytes | None:
    """`value` as JSON, None as nothing. Raises `InvalidInput` for what JSON cannot express exactly, like NaN."""
    return None if value is None else encode_any(field, value)


def encode_any(field: str, value: Any) -> bytes:
    """Like `encode_json`, if null is a value too."""
    quickly = _write_quickly(value)
    encoded = quickly or _write_strictly(field, value)
    check_exact(field, encoded, value)
    if quickly is None:
        decode_strictly(field, encoded)  # keys that are not text may have collided
    return encoded


def _write_quickly(value: Any) -> bytes | None:
    """Takes a third of the time; None if the result would be read back differently, like NaN as null."""
    try:
        encoded = _encode(value)
        return encoded if _decode(encoded) == value else None
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None


def _write_strictly(field: str, value: Any) -> bytes:
    try:
        return encode_utf8(field, _strict_encoder().encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(field, f"cannot be written as JSON: {error}") from None


def decode_strictly(field: str, document: bytes, depth: int = JSON_DEPTH) -> Any:
    """The value of a JSON text from outside, refused if another reader could understand it differently."""
    value = _read_quickly(document, depth)
    return _read_strictly(field, document, depth) if value is _UNSURE else value


def _read_quickly(document: bytes, depth: int = JSON_DEPTH) -> Any:
    """Takes half the time or less; `_UNSURE` for anything that may be wrong."""
    if b"\\u" in document or _has_long_number(document):
        return _UNSURE
    try:
        value = _decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _UNSURE
    # Of a duplicate name, the last value wins here; the first is lost, and a colon with it.
    is_the_same = type(value) in _CONTAINERS and _encode(value).count(b":") == document.count(b":")
    return value if is_the_same and (_is_flat(document, depth) or not _is_deeper(value, depth)) else _UNSURE


def _is_flat(document: bytes, depth: int) -> bool:
    """Whether the document is obviously not nested too deeply, as most are."""
    return document.count(b"[") + document.count(b"{") <= depth


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    while level and depth:
        depth -= 1
        inner = (outer.values() if type(outer) is dict else outer for outer in level)
        level = [item for item in chain.from_iterable(inner) if type(item) in _CONTAINERS]
    return bool(level)


def _read_strictly(field: str, document: bytes, depth: int = JSON_DEPTH) -> Any:
    if document.startswith(b"\xef\xbb\xbf"):
        raise InvalidInput(field, "begins with a byte order mark, which JSON does not allow")
    try:
        value = _strict_decoder().decode(document.decode())
    except UnicodeDecodeError as error:
        raise InvalidInput(field, f"is not UTF-8 (at byte {error.start})") from None
    except RecursionError:
        raise _too_deep(field) from None
    except ValueError as error:
        raise InvalidInput(field, f"is not valid JSON: {_problem(error, document)}") from None
    check_exact(field, document, value, depth)
    return value


def _problem(error: ValueError, document: bytes) -> str:
    from json import JSONDecodeError  # noqa: PLC0415  # see `_strict_decoder`

    if not isinstance(error, JSONDecodeError):
        return str(error)
    where = f"line {error.lineno}, column {error.colno}" if b"\n" in document.strip() else f"column {error.colno}"
    return f"{(error.msg[:1].lower() + error.msg[1:]).removesuffix(' at')} at {where}"


def check_exact(field: str, document: bytes, value: Any, depth: int = JSON_DEPTH) -> None:
    """Refuse what would be lost or rounded. `value` is decoded from `document`, so it has no cycles."""
    if _is_flat(document, depth) and not _has_long_number(document):
        return
    level = [value]
    for _ in range(depth + 1):
        if any(type(item) is int and abs(item) > JSON_INTEGER_MAX for item in level):
            raise InvalidInput(field, "has a whole number beyond 2^53, which many JSON readers round; send it as text")
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
    raise ValueError(f"it contains {constant}, which is not JSON")


# Imported when first needed: most commands never need it, and would start more slowly. Created once: the standard
# functions create a new one for every call with options.


@cache
def _strict_encoder() -> "json.JSONEncoder":
    from json import JSONEncoder  # noqa: PLC0415

    return JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))


@cache
def _strict_decoder() -> "json.JSONDecoder":
    from json import JSONDecoder  # noqa: PLC0415

    return JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)


def shorten(text: str, limit: int) -> str:
    """`text` within `limit` UTF-8 bytes, for text we write ourselves that must not be refused."""
    return text.replace("\0", "").encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


_LONG_NUMBER = b"0" * 16  # as long as 2^53
_DIGITS_AS_ZEROS = bytes.maketrans(b"0123456789", b"0" * 10)
_CONTAINERS = {dict, list}
_UNSURE = object()
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
