"""Untrusted text: nothing in it is hidden or obeyed, and readable text stays as it is."""

import json
import traceback
import unicodedata
from datetime import UTC, datetime
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.errors import Conflict, Held, InvalidInput, LeaseLost, NotAllowed, Unreachable
from octostore.core.visible import EMOJI_STYLE, visible, visible_json

HIDDEN_CATEGORIES: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
INVISIBLE = [
    *(chr(0xFE00 + number) for number in range(15)),  # variation selectors, except the one for emoji
    *(chr(0xE0000 + number) for number in range(0x1000)),  # tags, and more selectors
    *"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u2800\u3164\uffa0\U0001d159",
]
hidden = st.one_of(st.characters(categories=HIDDEN_CATEGORIES), st.sampled_from(INVISIBLE))
anything = st.text(st.one_of(st.characters(exclude_categories=()), hidden, st.just(EMOJI_STYLE)))
valid = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(INVISIBLE)))


def is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in HIDDEN_CATEGORIES or letter in INVISIBLE


@given(anything)
def test_nothing_is_hidden(text: str) -> None:
    assert not [letter for letter in visible(text) if is_hidden(letter)]


@given(anything)
def test_visible_text_stays_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@given(hidden)
def test_each_escape_can_be_read_back(letter: str) -> None:
    assert visible(f"a{letter}b").encode().decode("unicode_escape") == f"a{letter}b"


@given(valid)
def test_visible_json_is_the_same_document(text: str) -> None:
    document = visible_json(msgspec.json.encode({"note": text}).decode())
    assert not [letter for letter in document if is_hidden(letter)]
    assert msgspec.json.decode(document) == json.loads(document) == {"note": text}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agent-3",
        r"C:\new\x1b",
        "Müller, Łódź, Ελλάδα, Владимир",
        "日本語\u3000と한국어, हिन्दी, தமிழ், ไทย, עברית, العربية",
        "impossible\u00a0: 10\u202f000",
        "✅ ⚠️ ❤️ 1️⃣ ©️ 👍🏽 🇪🇺 🎉",
        "cafe\u0301",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert visible(text) == visible_json(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("one\ntwo\r\tthree\0", r"one\ntwo\r\tthree\x00"),
        ("\x7f\x9b31m", r"\x7f\x9b31m"),
        ("owner \u202egnp.exe\u2069", r"owner \u202egnp.exe\u2069"),
        ("ad\u200bmin\ufeff\u00ad\u2028", r"ad\u200bmin\ufeff\xad\u2028"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("a\ufe0f ⚠\ufe0f\ufe0f", "a\\ufe0f ⚠\ufe0f\\ufe0f"),
        ("👩\u200d💻", r"👩\u200d💻"),
        ("\ud800", r"\ud800"),
    ],
)
def test_hidden_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_json_escapes_use_surrogate_pairs() -> None:
    assert visible_json('"\U000e0041\x9b"') == r'"\udb40\udc41\u009b"'


@given(anything)
def test_errors_quote_untrusted_text_without_hidden_characters(text: str) -> None:
    now = datetime.now(UTC)
    errors = [
        Held(text, owner=text, claimed_at=now, heartbeat_at=now, expires_at=now),
        LeaseLost(text, text),
        Conflict(text),
        NotAllowed(text),
        Unreachable(text, reason="server"),
        InvalidInput(text, text),
    ]
    for error in errors:
        assert not [letter for letter in str(error) if is_hidden(letter)]
        assert "".join(traceback.format_exception_only(error)).count("\n") == 1
