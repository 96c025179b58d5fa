"""The list of tools: one JSON schema for each tool's arguments, as plain as models and clients need it.

There are no output schemas. They would be two thirds of the list, which every session pays for before it starts.
"""

from typing import Any

import msgspec

from octostore.mcp.tools import Tool

ANY_JSON = ["object", "array", "string", "number", "boolean", "null"]
"""Spelled out: clients that find no type send JSON as text."""
NAMES = frozenset(
    {"job_id", "session_id", "queue", "kinds", "percent", "outcome", "error", "reason", "phase", "max_attempts"}
    | {"limit", "cursor"}
)
"""Their names say it all, in a list that everyone pays for."""
UNSAID = frozenset({"anyOf", "pattern", "examples", "minLength", "minItems", "minimum"})
"""The core checks these; to a model they are long and say little."""


def described(tool: Tool) -> dict[str, Any]:
    """A tool as the protocol lists it."""
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": input_schema(tool.takes),
        "annotations": _hints(tool),
    }


def _hints(tool: Tool) -> dict[str, bool]:
    """Only those that differ from the protocol's defaults."""
    hints = {"openWorldHint": False}
    if tool.is_reading:
        return {**hints, "readOnlyHint": True}
    return hints if tool.is_destructive else {**hints, "destructiveHint": False}


def input_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([kind])
    schema = components[kind.__name__]
    names = sorted(schema["properties"], key=lambda name: name not in schema["required"])
    return {
        "type": "object",
        "properties": {name: _plain(name, schema["properties"][name]) for name in names},
        **({"required": schema["required"]} if schema["required"] else {}),
        "additionalProperties": False,
    }


def _plain(name: str, field: dict[str, Any]) -> dict[str, Any]:
    """Without redundancy: an optional field need not be null, and the core checks what a name looks like."""
    options = [option for option in field.get("anyOf", [field]) if option != {"type": "null"}]
    plain = {key: value for key, value in {**field, **options[0]}.items() if key not in UNSAID}
    if name in NAMES and plain.get("description") == f"The {name.removesuffix('_id')}.":
        del plain["description"]
    if not plain.get("default", ...):  # None, 0 or false, as anyone would expect
        del plain["default"]
    if "type" not in plain and "enum" not in plain:
        plain["type"] = ANY_JSON
    if "items" in plain:
        plain["items"] = {"type": plain["items"]["type"]} if "type" in plain["items"] else plain["items"]
    return plain
