"""The quick JSON reader and writer return what the strict ones return, or nothing."""

import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from octostore.core.encoding import (
    _UNSURE,
    _read_quickly,
    _read_strictly,
    _write_quickly,
    _write_strictly,
    decode_strictly,
    encode_any,
)
from octostore.core.errors import InvalidInput

NUMBERS = [
    *["0", "-0", "-0.0", "0e5", "1E400", "-1e400", "1e-400", "1e22", "1e23", "01", "+1", ".5", "5.", "1e", "0x1", "-"],
    *["NaN", "Infinity", "-Infinity", "4.35", "0.1e1", "5e-324", "3e-324", "1.7976931348623157e308", "true", "nul"],
    *["123456789012345", "9007199254740993", "1" * 25, "0." + "3" * 25, "1" * 400, "null"],
]
CHARACTERS = [
    *['"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d\\ude00"', '"a:b"', '"{"', '"\t"', '"\x7f"', '"\\x41"', "'a'", '"'],
    *['"\\u0061"', '"\\/"', '"\\"', '"\x00"', '"\\u00"', '"\\uD83D"', '"a\\u003ab"', '"\ud800"'],
]
TEXTS = st.one_of(
    st.text(max_size=6).map(json.dumps),
    st.text(max_size=6).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(CHARACTERS),
)
NAMES = st.sampled_from(['"a"', '"b"', '"\\u0061"', '"a:"', '""', "a", '"\\ud800"'])
BLANKS = st.sampled_from(["", "", "", " ", "\n\t\r", "\x0b", "\u00a0", "/**/"])


def in_brackets(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    commas = st.sampled_from([",", ",", ", ", " ,", ",,", ""])
    arrays = st.tuples(commas, st.lists(inner, max_size=4)).map(lambda parts: "[" + parts[0].join(parts[1]) + "]")
    colons = st.sampled_from([":", ":", ": ", " :", "", "::"])
    pairs = st.tuples(NAMES, colons, inner).map("".join)
    objects = st.tuples(commas, st.lists(pairs, max_size=4)).map(lambda parts: "{" + parts[0].join(parts[1]) + "}")
    return arrays | objects


JSON = st.recursive(st.sampled_from(NUMBERS) | TEXTS, in_brackets, max_leaves=12)
DOCUMENTS = st.one_of(
    st.tuples(BLANKS, JSON, BLANKS).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass")),
    st.tuples(JSON, st.integers(0, 60), st.binary(max_size=3)).map(
        lambda parts: _damaged(parts[0].encode("utf-8", "surrogatepass"), parts[1], parts[2])
    ),
    st.binary(max_size=20),
)


def _damaged(document: bytes, at: int, replacement: bytes) -> bytes:
    return document[:at] + replacement + document[at + len(replacement) :]


def is_same(one: Any, other: Any) -> bool:
    """Compare types and the sign of zero, too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS)
@example(b"-0")
@example(b'{"a": -0}')
@example(b'{"a":1,"a":2}')
@example(b'{"a":[{"b":1,"b":1}]}')
@example(b'{"a":"\xed\xa0\x80"}')
@example(b'{"\xed\xa0\x80":1}')
@example(b'{"\xc0\xaf":1}')
@example(b"[" * 65 + b"]" * 65)
@example(b"[" * 66 + b"]" * 66)
@example(b'{"a":' * 64 + b"1" + b"}" * 64)
@example(b'{"a":' * 65 + b"1" + b"}" * 65)
@example(b"[" * 100_000 + b"]" * 100_000)
@example(b"\xef\xbb\xbf{}")
@example(b"")
def test_the_quick_reader_returns_what_the_strict_one_does_or_nothing(document: bytes) -> None:
    quickly = _read_quickly(document)
    if quickly is not _UNSURE:
        assert is_same(quickly, _read_strictly("body", document))


@pytest.mark.parametrize(
    "document",
    [
        b'{"ttl_seconds": 60, "metadata": "host=a"}',
        '{"owner": "Jürgen"}'.encode(),
        b"{}",
        b'{"a": [1]}',
        b'{"a": {"b": 1}}',
        b'{"a": {}}',
        b'{"at": "10:30"}',
        b'{"a:b": ["c::d", {":": ":"}]}',
        b'{"commands": [{"a": 1}, {"a": [{"a": 2}]}], "atomic": true}',
    ],
)
def test_common_documents_are_read_quickly(document: bytes) -> None:
    assert _read_quickly(document) == json.loads(document)


@pytest.mark.parametrize("document", [b'{"a": "\\u0061"}', b'{"a": "1234567890123456"}', b"7"])
def test_less_common_documents_are_read_too(document: bytes) -> None:
    assert _read_quickly(document) is _UNSURE
    assert decode_strictly("body", document) == json.loads(document)


def test_a_duplicate_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has the name 'a' twice"):
        decode_strictly("body", b'{"a": 1, "a": 1}')


def test_keys_that_become_the_same_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="has the name '1' twice"):
        encode_any("payload", {"1": 1, 1: 2})


LEAVES = st.one_of(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    st.sampled_from(["\ud800", b"a", Decimal(1), datetime(2026, 1, 1, tzinfo=UTC), {1, 2}, object(), -0.0, 1e16, 1e-7]),
)
KEYS = st.text(max_size=3) | st.sampled_from([1, 1.5, None, True, "\ud800", (1,)])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(VALUES)
@example(math.nan)
@example([math.inf])
def test_the_quick_writer_returns_what_the_strict_one_does_or_nothing(value: Any) -> None:
    quickly = _write_quickly(value)
    if quickly is not None:
        assert is_same(json.loads(quickly), json.loads(_write_strictly("payload", value)))


def test_common_values_are_written_quickly() -> None:
    value = {"branch": "main", "tries": [1, 2.5, None, True], "by": {"name": "Jürgen"}}
    assert _write_quickly(value) == encode_any("payload", value) == _write_strictly("payload", value)


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = (value,)
    return value


def test_tuples_are_arrays_with_the_same_depth_limit() -> None:
    assert encode_any("payload", nested(1, 64)) == b"[" * 64 + b"1" + b"]" * 64
    with pytest.raises(InvalidInput, match="nested deeper than 64"):
        encode_any("payload", nested(1, 65))


def test_an_error_says_where_the_json_is_invalid() -> None:
    with pytest.raises(InvalidInput, match=r"^body is not valid JSON: expecting value at column 8$"):
        decode_strictly("body", b'{"pr": }')
    with pytest.raises(InvalidInput, match=r"at line 2, column 7$"):
        decode_strictly("body", b'{\n"pr": }')
    with pytest.raises(InvalidInput, match=r"^body is not valid JSON: unterminated string starting at column 2$"):
        decode_strictly("body", b'["pr')
