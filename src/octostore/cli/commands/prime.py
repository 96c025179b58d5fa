"""Print what an agent should know before it starts, in at most 1,500 characters.

What you hold, what others hold, and the commands you need. It is meant for an agent's context, so it always succeeds:
if the store cannot be reached, it says so.
"""

import argparse

from octostore.cli.command import Arguments, Context
from octostore.cli.priming import prime

EXAMPLES = [
    "octostore prime",
    "octostore prime github-issue- --owner agent-3    # of what others hold, only these",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "prefix", metavar="PREFIX", nargs="?", help="of what others hold, only jobs whose name begins with this"
    )
    parser.add_argument(
        "--owner", metavar="O", help="who you are (OCTOSTORE_OWNER, else the only one who keeps claims here)"
    )


def run(arguments: Arguments, context: Context) -> None:
    primed = prime(arguments.owner, context.place, arguments.prefix)
    context.console.answer(primed, *primed.text.splitlines())
