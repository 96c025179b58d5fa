"""Serve a store to an agent as Model Context Protocol (MCP) tools, over stdin and stdout.

The agent's client, such as a coding assistant, starts this command. The agent claims, reports, checkpoints and releases
jobs by name; this server heartbeats for it. When the session ends, or the agent makes no call for 30 minutes
(--max-silence), the jobs it still holds are released for others.
"""

import argparse
import os

from octostore.cli.command import Arguments, Context
from octostore.cli.options import seconds
from octostore.client.owner import OWNER_VARIABLE

EXAMPLES = [
    'octostore mcp    # in the server list of a client: "command": "octostore", "args": ["mcp"]',
    "octostore mcp --owner agent-3 --url https://locks.example.org",
    "octostore mcp --operator    # also tools to requeue, cancel, stop and take away jobs",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--owner",
        metavar="O",
        help="the agent's name, unless it gives its own (OCTOSTORE_OWNER, else that of its process, else host:pid)",
    )
    parser.add_argument(
        "--max-silence",
        metavar="S",
        type=_silence,
        default=1_800.0,
        help="release the agent's jobs after it makes no call for this long (default 30m; 0 or never: keep them)",
    )
    parser.add_argument(
        "--operator", action="store_true", help="also offer tools to requeue, cancel, stop and take away jobs"
    )


def _silence(text: str) -> float:
    return 0.0 if text == "never" else seconds(text)


def run(arguments: Arguments, context: Context) -> int:
    from octostore.mcp import stdio  # noqa: PLC0415  # only this command needs it

    settings = stdio.Settings(
        context.place.url,
        arguments.owner or _name(),
        is_operator=arguments.operator,
        max_silence=arguments.max_silence or None,
    )
    return stdio.serve(settings, context.console.remark)


def _name() -> str | None:
    """The one that the same agent has in its shell, if it is known: what it holds is listed there, too."""
    from octostore.keeping.watching import agent_here, name_of  # noqa: PLC0415  # few need it

    return os.environ.get(OWNER_VARIABLE) or name_of(agent_here())
