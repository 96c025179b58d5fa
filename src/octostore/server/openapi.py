"""The OpenAPI 3.1 document, generated from the routes and their types."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

import msgspec

from octostore._version import __version__
from octostore.server import refusals
from octostore.server.examples import request_body, sample
from octostore.server.router import Route
from octostore.server.routes import TAGS
from octostore.server.settings import Settings
from octostore.wire import fields as f
from octostore.wire.deadline import DEADLINE_HEADER
from octostore.wire.failures import Failure, Problem

SUMMARY = "One owner per job, ownership that anyone can see, and recovery when a worker disappears."
DESCRIPTION = (
    f"Calls that change something accept the header `{DEADLINE_HEADER}`, the number of milliseconds that you will wait "
    "for the response. If this time passes before the call runs, nothing is changed and you get 408 `too_late`."
)
JSON = "application/json"
PROBLEM = "application/problem+json"
EVENTS = "text/event-stream"
WITHOUT_CONTENT = {202, 204}

PARAMS: dict[str, Any] = {
    "job_id": f.JobId,
    "queue": f.Queue,
    "session_id": f.SessionId,
    "token_id": f.TokenId,
}
NARROWER: dict[str, tuple[str, Any]] = {
    "/locks/": ("job_id", f.LockName),
    "/sessions/{session_id}/claim": ("session_id", f.OwnSessionId),
}
"""By path prefix: a parameter whose type there differs from the one in `PARAMS`."""
STATUSES = {
    400: "The request is invalid; nothing was changed.",
    401: "The token is missing or not valid.",
    403: "The token may not do this, or the calling web page may not use this server.",
    404: "Not found.",
    408: "The request took too long to arrive, or its deadline has passed; nothing was changed.",
    409: "The current state does not allow this.",
    410: "The session has ended.",
    413: "The body is too large.",
    421: "The host is not allowed.",
    422: "The body has wrong fields or types; nothing was changed.",
    429: "Too many requests.",
    431: "The URL and headers are too large.",
    503: "The store or the server is unavailable.",
}
RETRIED = {429, 503}

_defaults = Settings()
ANY_REQUEST = [
    refusals.malformed(),
    refusals.origin_not_allowed(),
    refusals.too_slow(_defaults.request_seconds),
    refusals.body_too_large(_defaults.max_body_bytes),
    refusals.host_not_allowed("example.org"),
    refusals.head_too_large(_defaults.max_head_bytes, _defaults.max_headers),
    refusals.too_many_connections(),
]
WITH_TOKEN = [refusals.no_token(), refusals.bad_token(), refusals.too_fast(1_000)]
WITH_DEADLINE = [refusals.too_late("the deadline has passed")]


def build_document(routes: list[Route], base_path: str = "") -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(_Writer(routes).document(base_path)))
    return document  # plain JSON types only


class _Writer:
    def __init__(self, routes: list[Route]) -> None:
        self._routes = routes
        self._refused: dict[str, dict[str, Any]] = {}
        kinds = [Failure, Problem, *PARAMS.values(), *(kind for _, kind in NARROWER.values())]
        for route in routes:
            kinds += [*_request_types(route), *_response_types(route)]
        schemas, self._components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
        self._schemas = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
        self._refine()

    def _refine(self) -> None:
        """Add what msgspec cannot know about the types."""
        for component in self._components.values():
            if "description" in component:  # a docstring; Markdown would show its indented lines as code
                component["description"] = cleandoc(component["description"])
        for route in self._routes:
            if route.body is not None and route.body.RULES:
                self._components[route.body.__name__]["allOf"] = route.body.RULES
            for struct in _structs(msgspec.inspect.multi_type_info(_response_types(route))):
                component = self._components[struct.__name__]
                if not struct.__struct_config__.omit_defaults:  # every field is always sent
                    component["required"] = list(component["properties"])
        # Optional when we decode a failure, but always present in ours.
        self._components["Failure"]["required"] += ["details", "request_id"]

    def document(self, base_path: str) -> dict[str, Any]:
        paths: dict[str, dict[str, Any]] = {}
        for route in self._routes:
            paths.setdefault(route.path, {})[route.method.lower()] = self._operation(route)
        queries = {route.query.__name__ for route in self._routes if route.query is not None}
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "OctoStore",
                "version": __version__,
                "summary": SUMMARY,
                "description": DESCRIPTION,
                "license": {"name": "MIT", "identifier": "MIT"},
            },
            "servers": [{"url": base_path or "/"}],
            "security": [{"token": []}],
            "tags": [{"name": tag, "description": text} for tag, text in tag_descriptions(self._routes).items()],
            "paths": paths,
            "components": {
                "schemas": {name: schema for name, schema in self._components.items() if name not in queries},
                "responses": self._refused,
                "headers": HEADERS,
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer", "description": "A token; it begins with `octo_`."}
                },
            },
        }

    def _schema(self, kind: Any) -> dict[str, Any]:
        return self._schemas[id(kind)]

    def _operation(self, route: Route) -> dict[str, Any]:
        operation: dict[str, Any] = {
            "operationId": route.operation,
            "tags": [route.tag],
            "summary": route.summary,
            "description": _description(route),
            "parameters": list(self._parameters(route)),
            "responses": self._responses(route),
        }
        if route.is_public:
            operation["security"] = []
        body = route.body or route.reads
        if body is not None:
            content = {"schema": self._schema(body), "example": request_body(route)}
            is_required = any(field.required for field in msgspec.structs.fields(body))
            operation["requestBody"] = {"content": {JSON: content}, "required": is_required}
        return operation

    def _parameters(self, route: Route) -> Iterator[dict[str, Any]]:
        examples = route.example.get("params", {}) | route.example.get("query", {})
        kinds = PARAMS | dict(kind for path, kind in NARROWER.items() if route.path.startswith(path))
        for name in route.params:
            yield _parameter(name, "path", self._schema(kinds[name]), examples)
        if route.query is not None:
            query = self._components[route.query.__name__]
            for name, schema in query["properties"].items():
                yield _parameter(name, "query", schema, examples, is_required=name in query.get("required", ()))
        for name, kind in route.headers.items():
            yield _parameter(name, "header", self._schema(kind), examples)

    def _responses(self, route: Route) -> dict[str, Any]:
        responses = {str(status): self._success(route, status) for status in route.responses or {200: None}}
        for status, codes in error_codes(route).items():
            response = self._failure(status, codes)
            if status in route.responses:  # the same status has another meaning too
                own = responses[str(status)]["content"][JSON]
                schema = {"anyOf": [own["schema"], response["content"][JSON]["schema"]]}
                response["content"][JSON] = {**own, "schema": schema}
                responses[str(status)] = response
            else:
                responses[str(status)] = self._shared(status, codes, response)
        return dict(sorted(responses.items()))

    def _shared(self, status: int, codes: list[str], response: dict[str, Any]) -> dict[str, Any]:
        """Most routes share their error responses."""
        words = "Or".join(code.title().replace("_", "") for code in codes)
        name = f"{words}{status}"
        self._refused[name] = response
        return {"$ref": f"#/components/responses/{name}"}

    def _success(self, route: Route, status: int) -> dict[str, Any]:
        content: dict[str, Any] = {}
        if status in route.responses and status not in WITHOUT_CONTENT:
            kind = route.responses[status]
            schema = {"type": "null"} if kind is None else self._schema(kind)
            content[route.content_type] = {"schema": schema, **self._examples(route, schema, str(status))}
        if route.stream is not None:
            content[EVENTS] = self._stream(route)
        return {
            "description": route.summary,
            "headers": _headers("X-Request-Id"),
            **({"content": content} if content else {}),
        }

    def _examples(self, route: Route, schema: dict[str, Any], status: str) -> dict[str, Any]:
        if schema == {"type": "null"}:
            return {"example": None}
        if "$ref" in schema:
            return {"example": self._sample(route, schema, status)}
        options = schema.get("discriminator", {}).get("mapping", {})
        examples = {word: {"value": self._sample(route, {"$ref": ref}, word)} for word, ref in options.items()}
        return {"examples": examples} if examples else {}

    def _sample(self, route: Route, schema: dict[str, Any], status: str) -> Any:
        fields = route.example.get("response", {}) | route.example.get("other_responses", {}).get(status, {})
        return sample(schema, self._components, fields)

    def _stream(self, route: Route) -> dict[str, Any]:
        event = self._schema(route.stream)
        fields = route.example["event"]
        data = msgspec.json.encode(sample(event, self._components, fields)).decode()
        head = f"id: {fields['seq']}\nevent: {fields['type']}\n" if "seq" in fields else ""
        return {
            "schema": {"type": "string", "description": "Server-sent events, each with JSON as its `data`."},
            "x-event-data": event,
            "example": f"{head}data: {data}\n\n",
        }

    def _failure(self, status: int, codes: list[str]) -> dict[str, Any]:
        words = ", ".join(f"`{code}`" for code in codes)
        names = ["X-Request-Id", *(["Retry-After"] if status in RETRIED else [])]
        if status == 401:  # noqa: PLR2004  # Unauthorized
            names.append("WWW-Authenticate")
        restriction = {"properties": {"code": {"enum": codes}}}
        return {
            "description": f"{STATUSES[status]} Code: {words}.",
            "headers": _headers(*names),
            "content": {
                JSON: {"schema": {**self._schema(Failure), **restriction}},
                PROBLEM: {"schema": {**self._schema(Problem), **restriction}},
            },
        }


HEADERS: dict[str, Any] = {
    "X-Request-Id": {
        "description": "Identifies this request in the server's log.",
        "required": True,
        "schema": {"type": "string", "pattern": "^req_[0-9a-f]{32}$"},
    },
    "Retry-After": {
        "description": "Seconds until you should try again.",
        "required": True,
        "schema": {"type": "integer", "minimum": 0},
    },
    "WWW-Authenticate": {
        "description": "A token is needed.",
        "required": True,
        "schema": {"type": "string", "pattern": "^Bearer"},
    },
}


def tag_descriptions(routes: list[Route]) -> dict[str, str]:
    """The description of each group of routes."""
    return {route.tag: TAGS.get(route.tag, "") for route in routes}


def error_codes(route: Route) -> dict[int, list[str]]:
    """Every error code the route can return, by status."""
    found: dict[int, dict[str, None]] = {}
    for status, codes in route.codes.items():
        found.setdefault(status, {}).update(dict.fromkeys(codes))
    if route.params or route.query or route.body or route.headers or route.has_deadline:
        found.setdefault(400, {})["invalid_input"] = None
    if route.body is not None:
        found.setdefault(422, {})["invalid_input"] = None
    if route.scope is not None and not route.is_public:
        found.setdefault(403, {})["not_allowed"] = None
    if not route.is_public:
        found.setdefault(503, {})["unreachable"] = None
    with_deadline = WITH_DEADLINE if route.has_deadline else []
    for refusal in [*ANY_REQUEST, *([] if route.is_public else WITH_TOKEN), *with_deadline]:
        found.setdefault(refusal.status, {})[refusal.failure.code] = None
    return {status: list(codes) for status, codes in found.items()}


def _request_types(route: Route) -> list[Any]:
    return [kind for kind in (route.body, route.reads, route.query, *route.headers.values()) if kind is not None]


def _response_types(route: Route) -> list[Any]:
    return [kind for kind in (*route.responses.values(), route.stream) if kind is not None]


def _structs(infos: Any) -> Iterator[Any]:
    """All structs in these types, at any depth."""
    for info in infos:
        if isinstance(info, msgspec.inspect.Metadata | msgspec.inspect.ListType):
            inner = info.type if isinstance(info, msgspec.inspect.Metadata) else info.item_type
            yield from _structs([inner])
        elif isinstance(info, msgspec.inspect.UnionType):
            yield from _structs(info.types)
        elif isinstance(info, msgspec.inspect.StructType):
            yield info.cls
            yield from _structs(field.type for field in info.fields)


def _parameter(
    name: str, where: str, schema: dict[str, Any], examples: dict[str, str], *, is_required: bool = False
) -> dict[str, Any]:
    schema = _without_null(schema)
    is_list = schema.get("type") == "array"
    parameter = {
        "name": name,
        "in": where,
        "description": schema.pop("description"),
        "schema": schema,
        "required": where == "path" or is_required,
        **({"style": "form", "explode": False} if is_list else {}),  # comma-separated
    }
    example = examples.get(name, "$")
    if not example.startswith("$"):
        read = {"integer": int, "number": float}.get(schema.get("type", ""), str)
        parameter["example"] = example.split(",") if is_list else read(example)
    return parameter


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter can be left out, but not null."""
    schema = {name: value for name, value in schema.items() if not (name == "default" and value is None)}
    options = schema.pop("anyOf", [])
    return schema | next((option for option in options if option != {"type": "null"}), {})


def _description(route: Route) -> str:
    scope = f"a token with the `{route.scope}` scope" if route.scope else "any token"
    needs = "Needs no token." if route.is_public else f"Needs {scope}."
    return f"{route.description} {needs}".strip()


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
