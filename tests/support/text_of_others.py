"""Text that tries to give orders, mislead, or hide."""

import unicodedata

NASTY = "\x1b[31m\x07\r\n\t\x08\x9b2J\x7f\x85\u202e\u2066\u200b\u200d\ufeff\u2028\u3164\ufe01\U000e0041\U000e0101"
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def hidden_in(text: str) -> list[str]:
    """The characters of it that are still raw, except line ends."""
    return [
        one
        for one in text
        if one != "\n" and (unicodedata.category(one) in HIDDEN or (one in NASTY and not one.isascii()))
    ]
