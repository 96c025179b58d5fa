"""Example requests and responses for the API documentation. Tests send the requests and compare the responses."""

import re
from typing import Any
from urllib.parse import quote

import msgspec

from octostore._version import __version__
from octostore.server.router import Route

DEFAULT_URL = "http://127.0.0.1:3000"
IN_A_MINUTE = "2026-07-01T10:01:00Z"
LEASE_ID = "0b9e1c9e-6a5c-4f6e-9d0c-2f6f3f0f8f11"
TOKEN = "octo_2UuVd7TqVbT3sXyRk0HnCwJm5LzEaFgQ8oPi6Yx1Bt4WvN9Zq"  # noqa: S105  # the right format, but not a real token
NOW = "2026-07-01T10:00:00Z"

DEFAULTS: dict[str, Any] = {
    "active": True,
    "agent": "agent-3",
    "at": NOW,
    "attempt": 1,
    "attempts": 0,
    "available_at": "2026-07-01T10:00:30Z",
    "claimed_at": NOW,
    "created": True,
    "created_at": NOW,
    "ended_at": "2026-07-01T09:41:07Z",
    "expires_at": "2026-07-01T10:02:00Z",
    "late_at": "2026-07-01T10:01:20Z",
    "fencing_token": 4711,
    "heartbeat_at": NOW,
    "host": "127.0.0.1",
    "holder_id": "b3c1f0de-77a1-4c55-8e0e-2f6d6f1a9c02",
    "is_complete": True,
    "job_id": "github-issue-1842",
    "keepalive_interval_secs": 30,
    "late": False,
    "lease_id": LEASE_ID,
    "lock_count": 0,
    "lock_delay_seconds": 30,
    "lock_name": "deploy-main",
    "max_attempts": 5,
    "metadata": {"branch": "fix-1842"},
    "observed_at": NOW,
    "opened_at": NOW,
    "owner": "agent-3",
    "phase": "idle",
    "previous": [],
    "principal": "admin",
    "priority": 5,
    "released_at": NOW,
    "remaining_ms": 120_000,
    "renew_after_ms": 40_000,
    "replayed": False,
    "resumed": False,
    "retry_after_ms": 30_000,
    "saved_at": NOW,
    "scopes": ["read", "claim"],
    "seq": 4712,
    "stuck": False,
    "store_id": "5f1c0a6e8b3d459e8394b0633a35a26b",
    "token": TOKEN,
    "token_id": "tok-5f1c0a6e",
    "total": 1,
    "ttl": 120,
    "uptime_seconds": 86_400,
    "user_id": "5c0a7a56-3c0e-4d0a-9d55-0f8c2c3b7a41",
    "version": __version__,
}
"""The value of each field in examples, unless the example has its own."""


def sample(schema: dict[str, Any], components: dict[str, Any], value: Any = None) -> Any:
    """An example for the schema, which is or contains `value`."""
    if "$ref" in schema:
        return sample(components[schema["$ref"].rpartition("/")[2]], components, value)
    if isinstance(value, dict) and "properties" in schema:
        shown = {*value, *schema["required"]}
        return {
            field: sample(inner, components, value.get(field, DEFAULTS.get(field)))
            for field, inner in schema["properties"].items()
            if field in shown
        }
    if isinstance(value, list) and "$ref" in schema.get("items", {}):
        return [sample(schema["items"], components, item) for item in value]
    if value is not None and "anyOf" in schema:
        structs = [option for option in schema["anyOf"] if "$ref" in option]
        return sample(structs[0], components, value) if structs and isinstance(value, dict) else value
    if value is None and "enum" in schema:
        return schema["enum"][0]
    return schema.get("default") if value is None else value


def request_body(route: Route) -> Any:
    known = {"$LEASE": LEASE_ID, "$OCTOSTORE_TOKEN": TOKEN}
    body = route.example.get("body", {})
    return {name: known.get(value, value) if isinstance(value, str) else value for name, value in body.items()}


_SHELL_NAME = re.compile(r"\$[A-Z_]+")
SHELL_NAMES = {"LEASE": "lease_id", "TOKEN_ID": "token_id", "OTHER_TOKEN": "token"}
"""Shell variables in examples, and the field of an earlier response that each one holds."""


def curl_line(route: Route, *, accept: str | None = None) -> str:
    """The curl command for the route's example. It needs OCTOSTORE_URL and OCTOSTORE_TOKEN in the environment."""
    path = route.path
    for name, value in route.example.get("params", {}).items():
        path = path.replace(f"{{{name}}}", value if value.startswith("$") else quote(value, safe=""))
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in route.example.get("query", {}).items())
    options = ["-sS"]
    if route.method != "GET":
        options += ["-X", route.method]
    if accept or not route.responses:
        options.append("-N")
    lines = [f'curl {" ".join(options)} "$OCTOSTORE_URL{path}{"?" + query if query else ""}"']
    if not route.is_public:
        lines.append(f'-H "Authorization: Bearer {route.example.get("token", "$OCTOSTORE_TOKEN")}"')
    lines += [f'-H "{name}: {value}"' for name, value in route.example.get("headers", {}).items()]
    if accept:
        lines.append(f'-H "Accept: {accept}"')
    if "body" in route.example:
        text = msgspec.json.encode(route.example["body"]).decode()
        lines.append("-d '" + _SHELL_NAME.sub(r"""'"\g<0>"'""", text) + "'")
    return " \\\n  ".join(lines)
