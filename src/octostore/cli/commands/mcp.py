"""Serve a store to an agent as Model Context Protocol (MCP) tools, over stdin and stdout.

The agent's client, such as a coding assistant, starts this command. The agent claims, reports on, checkpoints and
releases jobs by name; heartbeats are sent for it. When its session ends, any jobs it still holds are released.
"""

import argparse

from octostore.cli.command import Arguments, Context
from octostore.core.errors import InvalidInput

EXAMPLES = [
    'octostore mcp    # in the server list of a client: "command": "octostore", "args": ["mcp"]',
    "octostore mcp --owner agent-3 --url https://locks.example.org",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--owner", metavar="O", help="the agent's name, unless it gives its own (OCTOSTORE_OWNER, else host:pid)"
    )


def run(arguments: Arguments, context: Context) -> int:
    try:
        from octostore.mcp import stdio  # noqa: PLC0415  # most of all that there is to import
    except ImportError as missing:
        raise InvalidInput("mcp", f"needs {missing.name or 'mcp'}: install octostore[mcp]") from None
    return stdio.serve(context.place.url, arguments.owner, context.console.remark)
