"""The API page: the table of routes for people. One plain page that needs no script and no internet."""

from html import escape
from typing import Any

from octostore._version import __version__
from octostore.server.examples import curl_line
from octostore.server.router import Route

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
nav a { margin-right: 1rem; }
section { border-top: 1px solid var(--line); padding: .5rem 0; }
h3 { font-size: 1rem; margin: .5rem 0; } h3 code { font-size: 1rem; }
.method { display: inline-block; min-width: 4rem; font-weight: 600; }
pre { background: var(--soft); padding: .6rem .8rem; overflow-x: auto; border-radius: 4px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); }
small { opacity: .75; }
"""


def render_page(routes: list[Route], document: dict[str, Any]) -> str:
    tags = list(dict.fromkeys(route.tag for route in routes))
    links = "".join(f'<a href="#{tag}">{tag}</a>' for tag in tags)
    parts = "".join(_part(tag, [route for route in routes if route.tag == tag], document) for tag in tags)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>OctoStore API</title><style>{STYLE}</style></head><body>
<h1>OctoStore API <small>{escape(__version__)}</small></h1>
<p>One owner per job, ownership that anyone can see, and recovery when a worker disappears.
Every call takes <code>Authorization: Bearer $OCTOSTORE_TOKEN</code> and JSON; errors are JSON with <code>error</code>,
<code>code</code>, <code>details</code> and <code>request_id</code>. The same for machines:
<a href="/openapi.json">openapi.json</a>.</p>
<nav>{links}</nav>{parts}</body></html>
"""


def _part(tag: str, routes: list[Route], document: dict[str, Any]) -> str:
    sections = "".join(_section(route, document) for route in routes)
    return f'<h2 id="{tag}">{tag.capitalize()}</h2>{sections}'


def _section(route: Route, document: dict[str, Any]) -> str:
    operation = document["paths"][route.path][route.method.lower()]
    return (
        f'<section id="{operation["operationId"]}">'
        f'<h3><span class="method">{route.method}</span> <code>{escape(route.path)}</code></h3>'
        f"<p>{escape(route.summary)}. {_code(operation['description'])}</p>"
        f"{_fields(operation, document)}"
        f"<pre>{escape(curl_line(route))}</pre>{_answers(operation)}</section>"
    )


def _fields(operation: dict[str, Any], document: dict[str, Any]) -> str:
    rows = [
        (parameter["name"], parameter["schema"], parameter.get("description", ""))
        for parameter in operation["parameters"]
        if parameter["in"] == "query"
    ]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        fields = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        required = set(fields.get("required", []))
        rows += [
            (name + (" *" if name in required else ""), field, _description(field))
            for name, field in fields.get("properties", {}).items()
        ]
    if not rows:
        return ""
    lines = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_type(field))}</td><td>{_code(text)}</td></tr>"
        for name, field, text in rows
    )
    return f"<table><tr><th>field</th><th>type</th><th></th></tr>{lines}</table>"


def _type(schema: dict[str, Any]) -> str:
    options = [schema, *schema.get("anyOf", [])]
    names = [option.get("type") or option.get("$ref", "").rpartition("/")[2] for option in options]
    told = " or ".join(name for name in dict.fromkeys(names) if name and name != "null") or "any JSON"
    if "enum" in schema:
        told = " | ".join(str(value) for value in schema["enum"])
    bounds = next((option for option in options if "minimum" in option), None)
    if bounds:
        told += f" {bounds['minimum']:,} to {bounds['maximum']:,}"
    default = schema.get("default")
    return told if default is None else f"{told} ({default})"


def _description(schema: dict[str, Any]) -> str:
    options = [schema, *schema.get("anyOf", [])]
    return next((option["description"] for option in options if "description" in option), "")


def _answers(operation: dict[str, Any]) -> str:
    statuses = "; ".join(
        f"<b>{status}</b> {escape(answer.get('description', ''))}"
        for status, answer in operation["responses"].items()
        if "description" in answer and not answer["description"].startswith(operation["summary"])
    )
    return f"<p><small>Otherwise: {statuses}</small></p>"


def _code(text: str) -> str:
    """Backquotes as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
