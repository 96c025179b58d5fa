"""The schema's patterns for names and texts match what the core checks, as far as ASCII goes."""

import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from octostore.core import limits, names
from octostore.core.checks import check_session_name, check_token_name
from octostore.core.errors import InvalidInput
from octostore.core.model import RESERVED
from octostore.wire import fields

ASCII = st.characters(max_codepoint=0x7F)
LIKE_NAMES = st.text(st.sampled_from("aZ09._-/#:@+=") | ASCII, max_size=300) | st.text(
    st.sampled_from("ab./"), min_size=60, max_size=70
)


def is_accepted(check: Callable[[str], None], text: str) -> bool:
    try:
        check(text)
    except InvalidInput:
        return False
    return True


def check_unreserved_token_name(text: str) -> None:
    """No pattern excludes the reserved names."""
    if text not in RESERVED:
        check_token_name("name", text)


@pytest.mark.parametrize(
    ("pattern", "low", "high", "check"),
    [
        (fields.JOB_ID_PATTERN, 1, limits.JOB_ID_BYTES, partial(names.check_job_id, "job_id")),
        (fields.LOCK_NAME_PATTERN, 1, limits.JOB_ID_BYTES, partial(names.check_lock_name, "name")),
        (fields.NAME_PATTERN, 1, limits.NAME_COMPONENT_BYTES, partial(names.check_name, "queue")),
        (fields.SESSION_ID_PATTERN, 1, limits.SESSION_ID_BYTES, lambda text: names.check_name("session_id", text, 128)),
        (fields.SESSION_PATTERN, 1, 700, lambda text: check_session_name("session_id", text)),
        (fields.PREFIX_PATTERN, 0, limits.JOB_ID_BYTES, partial(names.check_prefix, "prefix")),
        (fields.LINE_PATTERN, 0, 256, lambda text: limits.check_text("owner", text, 256)),
        (fields.TOKEN_NAME_PATTERN, 1, 256, check_unreserved_token_name),
        (fields.TEXT_PATTERN, 0, 256, lambda text: limits.check_size("note", text, 256)),
    ],
    ids=["job_id", "lock", "name", "session_id", "session", "prefix", "line", "token name", "text"],
)
@given(text=LIKE_NAMES)
@example(text="")
@example(text=".")
@example(text="..")
@example(text="...")
@example(text="a/..")
@example(text="a/.b")
@example(text="a//b")
@example(text="/")
@example(text="a" * 64)
@example(text="a" * 65)
@example(text="." * 64)
@example(text=".a" * 32)
@example(text=".a" * 33)
@example(text="a/" * 127 + "ab")
@example(text="a/" * 128 + "a")
@example(text="#:@+=-_.")
@example(text="server")
def test_the_pattern_is_exact(pattern: str, low: int, high: int, check: Callable[[str], None], text: str) -> None:
    is_described = low <= len(text) <= high and re.search(pattern.removesuffix("$") + r"\Z", text) is not None
    assert is_described == is_accepted(check, text)


@pytest.mark.parametrize("name", ["é", "straße", "名前/작업", "a/Ω"])
def test_letters_beyond_ascii_are_allowed(name: str) -> None:
    assert re.search(fields.JOB_ID_PATTERN, name)
    assert is_accepted(partial(names.check_job_id, "job_id"), name)
