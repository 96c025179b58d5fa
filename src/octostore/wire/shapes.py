"""A document of the wrong shape: msgspec's error in plain English, with the name of the field first."""

import re
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from octostore.core.encoding import shorten
from octostore.core.errors import InvalidInput
from octostore.core.similar import did_you_mean, most_similar

SHOWN_BYTES = 200
"""How much of the caller's own text an error quotes."""

_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "datetime": "a time",
}
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `(.*)`, got `(.*)`")
_ENUM = re.compile(r"Invalid enum value (.*)", re.DOTALL)


def shape_problem(error: msgspec.ValidationError, kind: type | None, where: str = "body") -> InvalidInput:
    """Describe `error`, which converting a document to `kind` raised. `where` names the document itself."""
    problem, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").lstrip(".")
    if (found := _UNKNOWN.fullmatch(problem)) is not None:
        noun = "parameter" if where == "query" else "field"
        meant = [] if field else most_similar(found[1][:SHOWN_BYTES], getattr(kind, "__struct_encode_fields__", ()))
        hint = f"; {did_you_mean(meant)}" if meant else ""
        return InvalidInput(shorten(_join(field, found[1]), SHOWN_BYTES), f"is not a {noun} of this call{hint}")
    if (found := _MISSING.fullmatch(problem)) is not None:
        return InvalidInput(_join(field, found[1]), "is required")
    return InvalidInput(field or where, shorten(_describe(problem, lambda: _choices(kind, field)), SHOWN_BYTES))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _describe(problem: str, choices: Callable[[], str]) -> str:
    if (found := _EXPECTED.fullmatch(problem)) is not None:
        got = "a decimal number" if found[2] == "float" else _in_words(found[2])
        return f"must be {_in_words(found[1])}, not {got}"
    if (found := _ENUM.fullmatch(problem)) is not None:
        return f"is {shorten(found[1], SHOWN_BYTES // 2)}; it must be one of {choices()}"
    if problem == "Invalid RFC3339 encoded datetime":
        return "must be a time like 2026-11-16T06:00:00Z"
    return f"is wrong: {problem[:1].lower()}{problem[1:]}"


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(name, name) for name in types.split(" | "))


def _choices(kind: type | None, path: str) -> str:
    """The allowed values of the enumeration at `path`."""
    hint: Any = kind
    for name in re.findall(r"\w+", re.sub(r"\[.*?\]", "", path)):
        hint = _find(hint, lambda option: isinstance(option, type) and issubclass(option, msgspec.Struct))
        hint = get_type_hints(hint).get(name) if hint else None
    return ", ".join(map(str, get_args(_find(hint, lambda option: get_origin(option) is Literal))))


def _find(hint: Any, fits: Callable[[Any], bool]) -> Any:
    """The first type in `hint` that fits, however deep."""
    if fits(hint):
        return hint
    return next((found for option in get_args(hint) if (found := _find(option, fits)) is not None), None)
