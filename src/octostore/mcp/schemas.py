"""JSON schemas of what the tools take and answer, as plain as models and their clients need them."""

from collections.abc import Sequence
from typing import Any

import msgspec

ANY_JSON = ["object", "array", "string", "number", "boolean", "null"]
"""Said aloud: clients that find no type send JSON as text."""


def input_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([kind])
    schema = components[kind.__name__]
    names = sorted(schema["properties"], key=lambda name: name not in schema["required"])
    return {
        "type": "object",
        "properties": {name: _plain(schema["properties"][name]) for name in names},
        "required": schema["required"],
        "additionalProperties": False,
    }


def output_schema(kinds: Sequence[type[msgspec.Struct]]) -> dict[str, Any]:
    references, components = msgspec.json.schema_components(kinds)
    if len(kinds) == 1:
        return {**components.pop(kinds[0].__name__), **({"$defs": components} if components else {})}
    # Older protocols want an object at the root, whichever one it is.
    return {"type": "object", "anyOf": list(references), "$defs": components}


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """Without what is said twice: what may be left out need not be null, and the core knows what a name looks like."""
    options = [option for option in field.get("anyOf", [field]) if option != {"type": "null"}]
    plain = {name: value for name, value in {**field, **options[0]}.items() if name not in {"anyOf", "pattern"}}
    if plain.get("default", ...) is None:
        del plain["default"]
    if "type" not in plain and "enum" not in plain:
        plain["type"] = ANY_JSON
    return plain
