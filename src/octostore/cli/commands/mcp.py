"""Serve a store to an agent, as tools of the Model Context Protocol, over stdin and stdout.

This is to be started by the agent's client, such as a coding assistant. The agent claims, reports, checkpoints and
releases jobs by name; heartbeats are sent for it. When its session ends, the jobs that it still holds are given back.
"""

import argparse

from octostore.cli.command import Arguments, Context
from octostore.core.errors import InvalidInput

EXAMPLES = [
    'octostore mcp    # for clients with a file of servers: "command": "octostore", "args": ["mcp"]',
    "octostore mcp --owner agent-3 --url https://locks.example.org",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--owner", metavar="O", help="who the agent is, unless it says so itself (OCTOSTORE_OWNER, else host:pid)"
    )


def run(arguments: Arguments, context: Context) -> int:
    try:
        from octostore.mcp import stdio  # noqa: PLC0415  # most of all that there is to import
    except ImportError as missing:
        raise InvalidInput("mcp", f"needs {missing.name or 'mcp'}: install octostore[mcp]") from None
    return stdio.serve(context.place.url, arguments.owner, context.console.remark)
