"""The OpenAPI 3.1 document, derived from the table of routes and the types in it."""

from typing import Any
from urllib.parse import quote

import msgspec

from octostore._version import __version__
from octostore.core import limits
from octostore.server.router import Route
from octostore.wire.failures import STATUSES, Failure

ERRORS = {
    400: "What was sent is wrong; nothing was changed.",
    401: "No token, or one that is not valid here.",
    403: "The token may not do this.",
    404: "There is no such thing.",
    405: "Not with this method.",
    408: "The request took too long to arrive.",
    409: "The state of things does not allow this.",
    410: "The session has ended.",
    413: "The body is too large.",
    422: "The body has the wrong shape.",
    429: "Too many requests.",
    503: "The store or the server cannot answer now.",
}
CODES = STATUSES | {
    "invalid_lock_name": 400,
    "invalid_ttl": 400,
    "lock_limit_exceeded": 409,
    "lease_not_current": 404,
    "session_ended": 410,
    "shutting_down": 503,
}
PUBLIC = (400, 429, 503)
"""What can go wrong with any call; with a token there is more."""

NAME = r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$"
PARAMS = {
    "job_id": {
        "description": "The job's name. A `/` in it is written as %2F.",
        "schema": {"type": "string", "minLength": 1, "maxLength": limits.JOB_ID_BYTES, "pattern": NAME},
    },
    "queue": {"description": "The queue's name.", "schema": {"type": "string", "pattern": NAME}},
    "session_id": {"description": "The session's id.", "schema": {"type": "string", "pattern": NAME}},
    "token_id": {
        "description": "The token's id, which is not its secret.",
        "schema": {"type": "string", "pattern": NAME},
    },
}


def document_of(routes: list[Route]) -> dict[str, Any]:
    kinds: list[Any] = [Failure]
    for route in routes:
        kinds += [kind for kind in (route.body, route.query, *route.answers.values()) if kind is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OctoStore",
            "version": __version__,
            "summary": "One owner per job, ownership that anyone can see, and recovery when a worker disappears.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if not name.endswith("Query")},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token, which begins with octo_."}
            },
        },
    }


def _operation(route: Route, schema_of: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.tag}_{route.handler.__name__}_{route.path.strip('/').split('/')[0]}",
        "tags": [route.tag],
        "summary": route.summary,
        "description": _description(route),
        "parameters": _parameters(route, schema_of, components),
        "responses": _responses(route, schema_of),
    }
    if route.is_public:
        operation["security"] = []
    if route.body is not None:
        content = {"schema": schema_of[id(route.body)], "example": route.example.get("body", {})}
        operation["requestBody"] = {"content": {"application/json": content}, "required": _has_required(route.body)}
    return operation


def _description(route: Route) -> str:
    scope = "Needs no token." if route.is_public else f"Needs a token with the scope `{route.scope or 'any'}`."
    return f"{route.description} {scope}".strip()


def _has_required(body: type) -> bool:
    return any(field.required for field in msgspec.structs.fields(body))


def _parameters(route: Route, schema_of: dict[int, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    names = [segment[1:-1] for segment in route.segments if segment.startswith("{")]
    examples = route.example.get("params", {})
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, **PARAMS[name]}
        | ({"example": examples[name]} if not examples.get(name, "$").startswith("$") else {})
        for name in names
    ]
    if route.query is not None:
        schema = components[schema_of[id(route.query)]["$ref"].rpartition("/")[2]]
        for name, field in schema["properties"].items():
            parameters.append({"name": name, "in": "query", "schema": _without_null(field)})
    return parameters


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not given is left out; it cannot be null."""
    schema = {name: value for name, value in schema.items() if not (name == "default" and value is None)}
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        return {**{name: value for name, value in schema.items() if name != "anyOf"}, **options[0]}
    if "enum" in schema:
        return {**schema, "enum": [value for value in schema["enum"] if value is not None]}
    return schema


def _responses(route: Route, schema_of: dict[int, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in route.answers.items():
        responses[str(status)] = {"description": route.summary}
        if kind is not None:
            responses[str(status)]["content"] = {route.content_type: {"schema": schema_of[id(kind)]}}
        elif status != 204:  # noqa: PLR2004  # No Content
            responses[str(status)]["content"] = {route.content_type: {"schema": {"type": "null"}}}
    for status in sorted(_failure_statuses(route)):
        content = {
            "application/json": {"schema": schema_of[id(Failure)]},
            "application/problem+json": {"schema": {"type": "object"}},
        }
        failure = {"description": ERRORS[status], "content": content}
        if str(status) in responses:  # the same status also says something else
            own = responses[str(status)]["content"][route.content_type]["schema"]
            content["application/json"] = {"schema": {"anyOf": [own, schema_of[id(Failure)]]}}
        responses[str(status)] = failure
    return responses


def _failure_statuses(route: Route) -> set[int]:
    statuses = set(PUBLIC) | set(route.codes)
    if not route.is_public:
        statuses |= {401, 403}
    if route.body is not None:
        statuses |= {408, 413, 422}
    return statuses


def curl_line(route: Route, *, host: str = "http://127.0.0.1:3000") -> str:
    """How to try it, with what the example says; `$NAMES` are the shell's."""
    path = route.path
    for name, value in route.example.get("params", {}).items():
        path = path.replace(f"{{{name}}}", value if value.startswith("$") else quote(value, safe=""))
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in route.example.get("query", {}).items())
    parts = ["curl", "-sS"]
    if route.method != "GET":
        parts += ["-X", route.method]
    if route.stream is not None and not route.answers:
        parts.append("-N")
    if not route.is_public:
        parts.append(f'-H "Authorization: Bearer {route.example.get("token", "$OCTOSTORE_TOKEN")}"')
    if "body" in route.example:
        text = msgspec.json.encode(route.example["body"]).decode()
        parts.append("-d '" + text.replace("$LEASE", "'\"$LEASE\"'") + "'")
    parts.append(f'"{host}{path}{"?" + query if query else ""}"')
    return " ".join(parts)
