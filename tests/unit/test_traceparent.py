"""Trace contexts from other programs: ignored if malformed; of a later version, the fields we know are read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.errors import InvalidInput
from octostore.core.traceparent import EXAMPLE, check_traceparent, traceparent_from
from octostore.wire.fields import NO_TRACE_PATTERN, TRACEPARENT_PATTERN

REST = EXAMPLE[2:]
FIELDS = st.sampled_from(["00", "01", "ff", "0" * 16, "0" * 32, "a" * 16, "b" * 32, "C" * 32, "1" * 15, "g" * 16, ""])


@pytest.mark.parametrize(
    ("header", "read"),
    [
        (EXAMPLE, EXAMPLE),
        (f" {EXAMPLE}\t", EXAMPLE),
        (f"01{REST}", EXAMPLE),
        (f"cc{REST}-what-comes-later", EXAMPLE),
        (f"cc{REST}.later", None),
        (f"{EXAMPLE}-more", None),
        (f"ff{REST}", None),
        (f"0x{REST}", None),
        (EXAMPLE.upper(), None),
        ("", None),
        (None, None),
    ],
)
def test_a_header_is_read_or_ignored(header: str | None, read: str | None) -> None:
    assert traceparent_from(header) == read


@given(st.lists(FIELDS, min_size=3, max_size=5).map("-".join) | st.just(EXAMPLE))
def test_the_schema_matches_what_the_core_checks(text: str) -> None:
    is_in_schema = re.search(TRACEPARENT_PATTERN, text) is not None and not re.search(NO_TRACE_PATTERN, text)
    try:
        check_traceparent("traceparent", text)
    except InvalidInput:
        assert not is_in_schema
    else:
        assert is_in_schema
        assert traceparent_from(text) == text
