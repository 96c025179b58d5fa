"""What generated pages have in common."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

FOLDER = Path(__file__).parents[1] / "reference"
REFRESH = "make references"


def page(title: str, source: str, lines: Iterable[str]) -> str:
    """The text of a page that is generated from `source`."""
    head = f"<!-- Generated from {source} by `{REFRESH}`. Edit the source, not this page. -->"
    return "\n".join([head, f"# {title}", "", *lines]) + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(headings)
    yield "|" + "---|" * len(headings)
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def code(text: object) -> str:
    return f"`{text}`"


_VARIABLES = {"ClaimT": "HeldClaim", "EventT": "Event"}
"""What a type variable is in an `OctoStore`."""


def type_name(annotation: Any) -> str:
    """A type as a reader would write it: without the modules that names come from."""
    if annotation in (None, type(None)):
        return "None"
    if annotation is msgspec.Raw:
        return "Any"
    text = annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
    text = re.sub(r"~(\w+)", lambda found: _VARIABLES[found[1]], text)
    text = re.sub(r"ForwardRef\('(\w+)'\)", r"\1", text)
    text = re.sub(r"(?<!['\"\w])(?:\w+\.)+(?=\w)", "", text)
    return re.sub(r"Optional\[(\w+)\]", r"\1 | None", text)


def field_types(kind: type) -> dict[str, str]:
    """The public fields of a class, with their types, in the order of the class."""
    return {name: type_name(hint) for name, hint in get_type_hints(kind).items() if _is_field(name, hint)}


def _is_field(name: str, hint: Any) -> bool:
    return not name.startswith("_") and get_origin(hint) is not type and "ClassVar" not in str(hint)


def field_notes(kind: type) -> dict[str, str]:
    """What is written below each field of a class and of the classes it is based on."""
    notes: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("octostore"):
            notes |= _notes_in(base)
    return notes


def attributes(kind: type) -> list[str]:
    """The public attributes that a class and the classes it is based on set in `__init__`."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    found: dict[str, None] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("octostore") and "__init__" in vars(base):
            source = textwrap.dedent(inspect.getsource(vars(base)["__init__"]))
            found |= dict.fromkeys(re.findall(r"^    self\.([a-z]\w*)(?:: [^=]+)? = ", source, re.MULTILINE))
    return list(found)


def _notes_in(kind: type) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101
    found = {}
    for field, note in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(note, ast.Expr):
            found[field.target.id] = inspect.cleandoc(ast.literal_eval(note.value))
    return found


def is_optional(kind: type[msgspec.Struct], field: str) -> bool:
    return any(one.name == field and not one.required for one in msgspec.structs.fields(kind))
