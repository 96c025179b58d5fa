"""The reference of MCP, from the tools."""

from collections.abc import Iterator

import msgspec

from docs.references.markdown import FOLDER, code, page, table
from docs.references.schemas import fields
from octostore.mcp.tools import OPERATOR_TOOLS, TOOLS, Tool

PATH = FOLDER / "mcp.md"
ABOUT = """\
The tools of `octostore mcp`, and of `/mcp` on a server. [How to use them](../how-to/mcp.md) says how claims are kept
alive, what the replies mean, and how the two differ. Over HTTP, tools that work on a claim or a session take the handle
that came with it instead of its name.

Durations are in seconds. A call with an unknown argument is refused, and nothing changes. Operator tools act on other
agents' jobs. They exist only with `octostore mcp --operator` or, over HTTP, with an `admin` token.
"""


def reference() -> str:
    return page("MCP tools", "src/octostore/mcp/tools.py", _lines())


def _lines() -> Iterator[str]:
    yield from ABOUT.splitlines()
    for title, tools in (("Tools", TOOLS), ("Operator tools", OPERATOR_TOOLS)):
        yield from ("", f"## {title}", "", *table(["tool", "takes", ""], map(_row, tools)))
        for tool in tools:
            yield from _about(tool)


def _row(tool: Tool) -> tuple[str, str, str]:
    names = sorted(msgspec.structs.fields(tool.takes), key=lambda field: not field.required)
    takes = ", ".join(code(field.name if field.required else f"{field.name}?") for field in names)
    return f"[`{tool.name}`](#{tool.name})", takes, tool.description.splitlines()[0]


def _about(tool: Tool) -> Iterator[str]:
    yield from ("", f"### {tool.name}", "", "\n\n".join(tool.description.splitlines()))
    _, components = msgspec.json.schema_components([tool.takes])
    schema = components[tool.takes.__name__]
    if schema["properties"]:
        yield from ("", *fields(schema, code, is_sent=True))
