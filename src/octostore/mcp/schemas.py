"""The list of tools: one JSON schema for each tool's arguments, as plain as models and clients need it.

There are no output schemas. They would be two thirds of the list, which every session pays for before it starts.
"""

from typing import Any

import msgspec

from octostore.mcp.tools import Tool

ANY_JSON = ["object", "array", "string", "number", "boolean", "null"]
"""Spelled out: clients that find no type send JSON as text."""
OBVIOUS = {
    "job_id": "The job.",
    "session_id": "The session.",
    "queue": "The queue.",
    "kinds": "Only jobs of these kinds.",
    "percent": "How far along you are.",
    "outcome": "How it went.",
    "error": "Why it failed.",
    "reason": "The reason.",
    "phase": "The phase.",
    "max_attempts": "Attempts before it is dead.",
    "limit": "Maximum number in the reply.",
    "cursor": "The `cursor` of the previous page.",
}
"""Left out of the tool list, which every session pays for: the names say as much. The reference has them."""
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
    if name in OBVIOUS and plain.get("description") == OBVIOUS[name]:
        del plain["description"]
    if not plain.get("default", ...):  # None, 0 or false, as anyone would expect
        del plain["default"]
    if "type" not in plain and "enum" not in plain:
        plain["type"] = ANY_JSON
    if "items" in plain:
        plain["items"] = {"type": plain["items"]["type"]} if "type" in plain["items"] else plain["items"]
    return plain
