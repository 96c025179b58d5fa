"""The reference of HTTP, from the OpenAPI document."""

import json
from collections.abc import Iterator
from typing import Any

from docs.references.markdown import FOLDER, code, page, table
from docs.references.schemas import default_of, fields, type_of
from octostore.server.api_page import GENERAL
from octostore.server.examples import curl_line
from octostore.server.openapi import DESCRIPTION, EVENTS, JSON, build_document
from octostore.server.routes import documented_routes

PATH = FOLDER / "http.md"
ABOUT = f"""\
Requests and responses are JSON; times are RFC 3339 in UTC. Nearly all calls need `Authorization: Bearer TOKEN`;
[the server](../how-to/server.md) writes its first token to a file. A running server shows this page at `/docs` and
its OpenAPI document at `/openapi.json`. [Errors](errors.md) have the same form everywhere.

{DESCRIPTION}

Every call with arguments can get `invalid_input` (400, or 422 if the body has the wrong shape). Most calls can also get
these errors: {", ".join(map(code, sorted(GENERAL)))}.

The examples work in a shell with these variables:

```sh
export OCTOSTORE_URL=http://127.0.0.1:3000 OCTOSTORE_TOKEN=octo_...
```
"""


def reference() -> str:
    return page("HTTP", "the server's routes", _lines())


def _lines() -> Iterator[str]:
    routes = documented_routes(has_page=True)
    document = build_document(routes)
    yield from ABOUT.splitlines()
    curl = {route.operation: curl_line(route) for route in routes}
    calls = [
        (method.upper(), path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    for tag in document["tags"]:
        title, _, text = tag["description"].partition(":")
        yield from ("", f"## {title}", "", text.strip()[:1].upper() + text.strip()[1:], "")
        mine = [call for call in calls if tag["name"] in call[2]["tags"]]
        yield from table(["call", ""], ((_call_link(method, path), one["summary"]) for method, path, one in mine))
        for method, path, operation in mine:
            yield from _operation(document, method, path, operation, curl[operation["operationId"]])
    yield from _types(document)


def _call_link(method: str, path: str) -> str:
    return f"[`{method} {path}`](#{_anchor(f'{method} {path}')})"


def _anchor(heading: str) -> str:
    return "".join(letter for letter in heading.lower() if letter.isalnum() or letter in "-_ ").replace(" ", "-")


def _type_link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any], curl: str) -> Iterator[str]:
    yield from ("", f"### {method} {path}", "", f"**{operation['summary']}.** {operation['description']}")
    if operation["parameters"]:
        rows = (
            (
                code(one["name"]),
                one["in"],
                type_of(one["schema"], _type_link),
                "required" if one["required"] else default_of(one["schema"]),
                one["description"],
            )
            for one in operation["parameters"]
        )
        yield from ("", *table(["parameter", "in", "type", "default", "meaning"], rows))
    if "requestBody" in operation:
        name = operation["requestBody"]["content"][JSON]["schema"]["$ref"].rpartition("/")[2]
        yield from ("", *fields(document["components"]["schemas"][name], _type_link, is_sent=True))
    yield from ("", "```sh", *curl.splitlines(), "```")
    for status, response in operation["responses"].items():
        for kind, content in response.get("content", {}).items():
            if status < "300" and ("example" in content or "examples" in content):
                yield from _response(status, kind, content)
    errors = sorted({found for response in operation["responses"].values() for found in _codes(document, response)})
    if errors:
        yield from ("", "Errors: " + ", ".join(f"{code(word)} ({status})" for status, word in errors) + ".")


def _response(status: str, kind: str, content: dict[str, Any]) -> Iterator[str]:
    named = kind if kind == EVENTS else type_of(content["schema"], _type_link)
    yield from ("", f"{status}: {named}")
    example = next(iter(content.get("examples", {}).values()), {"value": content.get("example")})["value"]
    if isinstance(example, dict | list):
        yield from ("", "```json", *json.dumps(example, indent=2, ensure_ascii=False).splitlines(), "```")
    elif kind == EVENTS:
        yield from ("", "```text", *str(example).strip().splitlines(), "```")


def _codes(document: dict[str, Any], response: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What only some calls respond with, by status."""
    if "$ref" in response:
        name = response["$ref"].rpartition("/")[2]
        schema = document["components"]["responses"][name]["content"][JSON]["schema"]
        for word in schema["properties"]["code"]["enum"]:
            if word not in GENERAL | {"invalid_input"}:
                yield name[-3:], word


def _types(document: dict[str, Any]) -> Iterator[str]:
    bodies = {
        operation["requestBody"]["content"][JSON]["schema"]["$ref"].rpartition("/")[2]
        for operations in document["paths"].values()
        for operation in operations.values()
        if "requestBody" in operation
    }
    yield from ("", "## Types", "", "The types used in responses.")
    for name, schema in sorted(document["components"]["schemas"].items()):
        if name not in bodies:
            yield from ("", f"### {name}", "", *schema.get("description", "").splitlines(), "")
            yield from fields(schema, _type_link, is_sent=False)
