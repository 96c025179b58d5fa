"""The API page: every route, for people. A single page without scripts or external resources."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from octostore._version import __version__
from octostore.server.assets import API_STYLE, ICON, assets
from octostore.server.examples import DEFAULT_URL, SHELL_NAMES, curl_line
from octostore.server.openapi import (
    ANY_REQUEST,
    EVENTS,
    JSON,
    STATUSES,
    SUMMARY,
    WITH_DEADLINE,
    WITH_TOKEN,
    error_codes,
    tag_descriptions,
)
from octostore.server.router import Route
from octostore.wire.errors import ERRORS
from octostore.wire.fields import UNIT

GENERAL = {refusal.failure.code for refusal in [*ANY_REQUEST, *WITH_TOKEN, *WITH_DEADLINE]}
GENERAL |= {"unreachable", "not_allowed"}
OK = {"200", "201", "202", "204"}


def render_page(routes: list[Route], document: dict[str, Any]) -> str:
    page = _Page(document)
    tags = tag_descriptions(routes)
    by_tag = {tag: [route for route in routes if route.tag == tag] for tag in tags}
    menu = "".join(f"<h2>{escape(tag)}</h2><ul>{''.join(map(_link, by_tag[tag]))}</ul>" for tag in tags)
    parts = "".join(
        f'<h2 id="about-{escape(tag)}">{_text(title)}</h2><p>{_text(text[1:2].upper() + text[2:])}</p>'
        f"{''.join(map(page.section, by_tag[tag]))}"
        for tag, (title, _, text) in ((tag, description.partition(":")) for tag, description in tags.items())
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>OctoStore API</title><link rel="icon" href="{assets().folder}/{ICON}" type="image/svg+xml">
<link rel="stylesheet" href="{assets().folder}/{API_STYLE}"></head><body>
<nav aria-label="Calls"><a href="#top"><b>OctoStore API</b></a>{menu}
<h2>more</h2><ul><li><a href="#errors">Errors</a></li><li><a href="#types">Types</a></li>
<li><a href="openapi.json">openapi.json</a></li></ul></nav>
<main id="top"><h1>OctoStore API <small>{escape(__version__)}</small></h1>
<p>{escape(SUMMARY)}</p>
<p>Calls send and return JSON. Nearly all need <code>Authorization: Bearer TOKEN</code>; at startup, the server prints
the path of the file with its first token. Times are RFC 3339 in UTC. To run the examples, set these variables in your
shell:</p>
<pre tabindex="0">export OCTOSTORE_URL={DEFAULT_URL} OCTOSTORE_TOKEN=octo_...</pre>
{parts}{_errors(routes)}{page.types()}</main></body></html>
"""


def _link(route: Route) -> str:
    return f'<li><a href="#{route.operation}">{_method(route)} {escape(route.path)}</a></li>'


def _method(route: Route) -> str:
    return f'<span class="method {route.method.lower()}">{escape(route.method)}</span>'


class _Page:
    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._types = document["components"]["schemas"]

    def section(self, route: Route) -> str:
        operation = self._document["paths"][route.path][route.method.lower()]
        return (
            f'<section id="{operation["operationId"]}"><h3>{_method(route)} <code>{escape(route.path)}</code></h3>'
            f"<p><b>{_text(route.summary)}.</b> {_text(operation['description'])}</p>"
            f"{self._parameters(operation)}{self._body(operation)}"
            f"{_example(route)}{self._responses(operation)}{_errors_of(route)}</section>"
        )

    def _parameters(self, operation: dict[str, Any]) -> str:
        rows = [
            (
                f"<code>{escape(parameter['name'])}</code> {_quiet(escape(parameter['in']))}",
                self._type(parameter["schema"]),
                _default(parameter["schema"], is_required=parameter["required"]),
                _text(parameter["description"]),
            )
            for parameter in operation["parameters"]
        ]
        return _table("Parameters", rows)

    def _body(self, operation: dict[str, Any]) -> str:
        if "requestBody" not in operation:
            return ""
        schema = self._types[_name(operation["requestBody"]["content"][JSON]["schema"])]
        rows = [
            (
                f"<code>{escape(name)}</code>",
                self._type(_without_null(field)),
                _default(field, is_required=name in schema["required"]),
                _text(_described(field)),
            )
            for name, field in schema["properties"].items()
        ]
        return _table("Body", rows)

    def _responses(self, operation: dict[str, Any]) -> str:
        found = []
        for status, response in operation["responses"].items():
            if status not in OK and JSON not in response.get("content", {}):
                continue
            for kind, content in response.get("content", {"": {}}).items():
                found.append(self._response(status, kind, content))
        return f"<h4>Response</h4>{''.join(found)}"

    def _response(self, status: str, kind: str, content: dict[str, Any]) -> str:
        shown = f" {self._type(content['schema'])}" if kind == JSON else f" <code>{escape(kind)}</code>" if kind else ""
        if kind == EVENTS:
            shown += f", each event with a {self._type(content['x-event-data'])} as its data"
        head = f"<p><b>{status}</b>{shown}</p>"
        if "example" in content:
            return head + _shown(content["example"])
        examples = list(content.get("examples", {}).items())
        return head + "".join(
            f"<details{' open' if not number else ''}><summary>{escape(word)}</summary>"
            f"{_shown(example['value'])}</details>"
            for number, (word, example) in enumerate(examples)
        )

    def types(self) -> str:
        bodies = {
            _name(operation["requestBody"]["content"][JSON]["schema"])
            for operations in self._document["paths"].values()
            for operation in operations.values()
            if "requestBody" in operation
        }
        shown = "".join(self._type_section(name) for name in sorted(self._types) if name not in bodies)
        return f'<h2 id="types">Types</h2><p>The objects in responses.</p>{shown}'

    def _type_section(self, name: str) -> str:
        schema = self._types[name]
        rows = [
            (
                f"<code>{escape(field)}</code>",
                self._type(inner),
                ("" if field in schema["required"] else _quiet("Optional. ")) + _text(_described(inner)),
            )
            for field, inner in schema["properties"].items()
        ]
        text = _text(schema.get("description", ""))
        table = _table("", rows, ("field", "type", "meaning"))
        return f'<section id="type-{name}"><h3>{name}</h3><p>{text}</p>{table}</section>'

    def _type(self, schema: dict[str, Any]) -> str:
        if "$ref" in schema:
            return f'<a href="#type-{_name(schema)}">{_name(schema)}</a>'
        if "anyOf" in schema:
            return " or ".join(self._type(option) for option in schema["anyOf"])
        if "enum" in schema:
            return " | ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
        if schema.get("type") == "array":
            number = f"{schema['minItems']} to {schema['maxItems']}: " if "maxItems" in schema else ""
            return f"list of {number}{self._type(schema['items'])}"
        if schema.get("format") == "date-time":
            return "time"
        names = {"string": "text", "integer": "whole number", "boolean": "true or false", None: "any JSON"}
        kind = schema.get("type")
        return f"{names.get(kind, kind)}{_bounds(schema)}"


def _bounds(schema: dict[str, Any]) -> str:
    if "minimum" in schema:
        return f", {schema['minimum']:,} to {schema['maximum']:,}"
    if "maxLength" in schema:
        return f", up to {schema['maxLength']:,} {schema.get(UNIT, 'bytes')}"
    return f", {escape(schema['format'].upper())}" if "format" in schema else ""


def _default(schema: dict[str, Any], *, is_required: bool) -> str:
    if is_required:
        return "<b>required</b>"
    default = schema.get("default")
    return "" if default is None else f"<code>{escape(json.dumps(default))}</code>"


def _described(schema: dict[str, Any]) -> str:
    options = [schema, *schema.get("anyOf", [])]
    return next((option["description"] for option in options if "description" in option), "")


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A field with a default is usually left out, so do not mention null."""
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    return {"anyOf": options} if options and "default" in schema else schema


def _example(route: Route) -> str:
    lines = [curl_line(route)]
    if route.stream is not None and route.responses:
        lines.append(curl_line(route, accept=EVENTS))
    before = ", then ".join(f'<a href="#{name}"><code>{name}</code></a>' for name in route.example.get("first", []))
    used = [
        f"<code>{name}</code> is the <code>{field}</code> returned"
        for name, field in SHELL_NAMES.items()
        if f"${name}" in lines[0]
    ]
    hint = _quiet("; ".join([f"after {before}", *used])) if before else ""
    shown = "".join(f'<pre tabindex="0">{escape(line)}</pre>' for line in lines)
    return f"<h4>Try it</h4>{hint}{shown}"


def _errors_of(route: Route) -> str:
    found = [
        f"<b>{status}</b> {', '.join(_code_link(code) for code in own)}"
        for status, codes in sorted(error_codes(route).items())
        if (own := [code for code in codes if code not in GENERAL])
    ]
    general = '<a href="#errors">general errors</a>'
    return (
        f"<h4>Errors</h4><p>{'; '.join(found)}; and the {general}.</p>"
        if found
        else f"<h4>Errors</h4><p>The {general}.</p>"
    )


def _quiet(text: str) -> str:
    return f'<span class="quiet">{text}</span>'


def _code_link(code: str) -> str:
    return f'<a href="#error-{code}"><code>{code}</code></a>'


def _errors(routes: list[Route]) -> str:
    statuses: dict[str, set[int]] = {}
    for route in routes:
        for status, codes in error_codes(route).items():
            for code in codes:
                statuses.setdefault(code, set()).add(status)
    rows = [
        (
            f'<span id="error-{code}"><code>{code}</code></span>',
            ", ".join(str(status) for status in sorted(found)),
            _text(" ".join(STATUSES[status] for status in sorted(found)[:1])),
            _text(ERRORS[code].advice),
        )
        for code, found in sorted(statuses.items(), key=lambda item: (min(item[1]), item[0]))
    ]
    return (
        '<h2 id="errors">Errors</h2><p>Every error is a <a href="#type-Failure">Failure</a>: <code>code</code> is a '
        "stable name, <code>error</code> says what happened, <code>details</code> says what to do about it. With "
        '<code>Accept: application/problem+json</code> it is a <a href="#type-Problem">Problem</a>. Every response '
        "also has its <code>request_id</code> in the <code>X-Request-Id</code> header.</p>"
        f"{_table('', rows, ('code', 'status', 'meaning', 'what to do'))}"
    )


def _table(
    title: str, rows: Sequence[tuple[str, ...]], heads: tuple[str, ...] = ("field", "type", "default", "meaning")
) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    above = f"<h4>{title}</h4>" if title else ""
    return f'{above}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _shown(example: Any) -> str:
    text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
    return f'<pre tabindex="0">{escape(text.rstrip())}</pre>'


def _name(schema: dict[str, Any]) -> str:
    name: str = schema["$ref"].rpartition("/")[2]
    return name


def _text(text: str) -> str:
    """Escape, and turn backquotes into code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
