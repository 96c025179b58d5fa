"""JSON schemas as tables for people."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from docs.references.markdown import code, table
from octostore.wire.fields import UNIT

NAMES = {"string": "text", "integer": "integer", "boolean": "boolean", "null": "null", None: "any JSON"}
Link = Callable[[str], str]


def fields(schema: dict[str, Any], link: Link, *, is_sent: bool) -> Iterator[str]:
    """What an object has. One that is sent to us says what is required; one that we send, what may be missing."""
    required = set(schema.get("required", ()))
    rows: list[tuple[str, ...]] = []
    for name, field in sorted(schema["properties"].items(), key=lambda item: is_sent and item[0] not in required):
        if is_sent:
            third = "required" if name in required else default_of(field)
            rows.append((code(name), type_of(without_null(field), link), third, described(field)))
        else:
            optional = "" if name in required else "Not always present. "
            rows.append((code(name), type_of(field, link), f"{optional}{described(field)}"))
    heads = ["field", "type", "default", "meaning"] if is_sent else ["field", "type", "meaning"]
    yield from table(heads, rows)


def type_of(schema: dict[str, Any], link: Link) -> str:
    if "$ref" in schema:
        return link(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(option, link) for option in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(code(json.dumps(value)) for value in schema["enum"])
    if schema.get("type") == "array":
        number = f" ({schema.get('minItems', 0)} to {schema['maxItems']:,})" if "maxItems" in schema else ""
        return f"list{number} of {type_of(schema['items'], link)}"
    if schema.get("format") == "date-time":
        return "time"
    kind = schema.get("type")
    return f"{NAMES.get(kind, kind)}{_bounds(schema)}"


def _bounds(schema: dict[str, Any]) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f", {schema['minimum']:,} to {schema['maximum']:,}"
    if "maxLength" in schema:
        return f", up to {schema['maxLength']:,} {schema.get(UNIT, 'bytes')}"
    return ""


def default_of(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    return "" if default is None else code(json.dumps(default))


def described(schema: dict[str, Any]) -> str:
    options = [schema, *schema.get("anyOf", [])]
    return next((option["description"] for option in options if "description" in option), "")


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A field with a default is left out more often than it is null."""
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    return {"anyOf": options} if options and "default" in schema else schema
