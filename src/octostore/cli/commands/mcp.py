"""Serve a store to an agent as Model Context Protocol (MCP) tools, over stdin and stdout.

The agent's client, for example a coding assistant, starts this command. The agent claims, reports, checkpoints and
releases jobs by name; this server sends the heartbeats. When the client ends the connection, or the agent makes no call
for 30 minutes (--max-silence), the jobs it still holds are released.
"""

import argparse
import os

from octostore.cli.options import seconds
from octostore.cli.subcommands import Arguments, Context
from octostore.client.owner import OWNER_VARIABLE
from octostore.mcp.silence import MAX_SILENCE_SECONDS

EXAMPLES = [
    'octostore mcp    # in the server list of a client: "command": "octostore", "args": ["mcp"]',
    "octostore mcp --owner agent-3 --url https://locks.example.org",
    "octostore mcp --operator    # also tools to requeue, cancel, stop and take away jobs",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--owner",
        metavar="O",
        help="the agent's name, unless it passes its own (default: OCTOSTORE_OWNER, else a name based on the agent's "
        "process, else host:pid)",
    )
    parser.add_argument(
        "--max-silence",
        metavar="S",
        type=_silence,
        default=MAX_SILENCE_SECONDS,
        help="release the agent's jobs if it makes no call for this long; 0 or never keeps them (default: 30m)",
    )
    parser.add_argument(
        "--operator", action="store_true", help="also offer tools to requeue, cancel, stop and take away jobs"
    )


def _silence(text: str) -> float:
    return 0.0 if text == "never" else seconds(text)


def run(arguments: Arguments, context: Context) -> int:
    from octostore.mcp import stdio  # noqa: PLC0415  # only this command needs it

    settings = stdio.Settings(
        context.address.url,
        arguments.owner or _owner_name(),
        is_operator=arguments.operator,
        max_silence=arguments.max_silence or None,
    )
    return stdio.serve(settings, context.console.print_message)


def _owner_name() -> str | None:
    """The name the agent's shell commands use, if known, so that both list the same claims."""
    from octostore.keeping.watching import agent_here, name_of  # noqa: PLC0415  # rarely needed

    return os.environ.get(OWNER_VARIABLE) or name_of(agent_here())
