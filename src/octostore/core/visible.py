"""Make other people's text safe to show: nothing in it can hide from a reader, or control a terminal.

Escaped are control characters (C0 and C1, including line breaks and tabs), everything that changes the writing
direction or has no width (joiners, tags, variation selectors, fillers), and code points that are not characters.
Letters of all scripts, their marks, spaces and emoji stay as they are. A joiner is escaped even within an emoji: on a
terminal that draws the parts side by side, two names that differ only by the joiner would look the same.
"""

import re
from collections.abc import Callable

EMOJI_STYLE = "\ufe0f"
"""Asks for the preceding symbol to be drawn as an emoji, as in ⚠️. Kept after a symbol, and escaped elsewhere."""
_UNSEEN = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0000-\U000e0fff]"
"""Printable according to Python, yet invisible. Compiled on first use, which for most processes is never."""
_SPACES = frozenset(" \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
_STYLED = "[#*0-9©®\u203c-\u3299\U0001f000-\U0001faff]"
"""Roughly, what can be drawn as an emoji."""


def visible(text: str) -> str:
    """On one line. Text that is already safe is unchanged, so this may be applied more than once."""
    return _escaped(text, _as_in_python)


def visible_json(document: str) -> str:
    """The same for JSON on one line: the same document, spelled differently."""
    return _escaped(document, _as_in_json)


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable() and (text.isascii() or not re.search(_UNSEEN, text)):
        return text
    befores = " " + text
    return "".join(
        escape(letter) if _hides(letter, before) else letter for before, letter in zip(befores, text, strict=False)
    )


def _hides(letter: str, before: str) -> bool:
    if letter.isascii():
        return not letter.isprintable()
    if letter == EMOJI_STYLE:
        return not re.match(_STYLED, before)
    return letter not in _SPACES and not (letter.isprintable() and not re.match(_UNSEEN, letter))


def _as_in_python(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def _as_in_json(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
