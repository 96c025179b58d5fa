"""The table of tools in the how-to, from the tools: `python -m docs.references.mcp` writes it anew."""

import re
from pathlib import Path

import msgspec

from octostore.mcp.tools import OPERATOR_TOOLS, TOOLS, Tool

PATH = Path(__file__).parents[1] / "how-to" / "mcp.md"
REFRESH = "python -m docs.references.mcp"
BEGIN = f"<!-- Made from the tools by `{REFRESH}`: change those, and run it. -->\n"
_TABLE = re.compile(re.escape(BEGIN) + r"(?:\|.*\n)*")


def refreshed(page: str) -> str:
    table = "".join(
        f"{line}\n"
        for line in ["| tool | takes | |", "|---|---|---|", *map(_row, TOOLS), *map(_operator_row, OPERATOR_TOOLS)]
    )
    return _TABLE.sub(lambda _: BEGIN + table, page)


def _row(tool: Tool) -> str:
    fields = sorted(msgspec.structs.fields(tool.takes), key=lambda field: not field.required)
    takes = ", ".join(f"`{field.name}`" if field.required else f"`{field.name}?`" for field in fields)
    return f"| `{tool.name}` | {takes} | {tool.description.splitlines()[0]} |"


def _operator_row(tool: Tool) -> str:
    return _row(tool).replace("` | ", "` (`--operator`) | ", 1)


if __name__ == "__main__":
    PATH.write_text(refreshed(PATH.read_text(encoding="utf-8")), encoding="utf-8")
