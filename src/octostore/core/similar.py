"""Which existing jobs an unknown name may have meant. Only a few names are compared, however many there are."""

from collections.abc import Iterable, Sequence

NAMES_LOOKED_AT = 16
"""How many names are compared after each position, and before the first one."""
PARTS_LEFT_OUT = 2
SUGGESTED_MAX = 3
LEAST_RATIO = 0.7
"""For `difflib`. Two names generated on the same day reach about 0.6 by chance."""


def places_near(name: str) -> list[str]:
    """Where to look, in name order: at `name` itself, without its last parts, and at the very beginning."""
    cuts = [place + 1 for place, sign in enumerate(name[:-1]) if not sign.isalnum()][-PARTS_LEFT_OUT:]
    return [name, *(name[:cut] for cut in reversed(cuts)), ""]


def most_similar(name: str, found: Iterable[str]) -> list[str]:
    """Names that start with `name` first, because it may have been cut short; then the most similar."""
    from difflib import get_close_matches  # noqa: PLC0415  # only needed after a typo

    others = sorted(set(found) - {name})
    longer = [other for other in others if other.startswith(name)]
    alike = get_close_matches(name, [other for other in others if other not in longer], SUGGESTED_MAX, LEAST_RATIO)
    return [*longer, *alike][:SUGGESTED_MAX]


def did_you_mean(similar: Sequence[str]) -> str:
    *others, last = similar
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"
