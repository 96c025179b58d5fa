"""Print what an agent should know before it starts, in at most 1,500 characters.

It prints what you hold, what others hold, and the commands you need. The output is for an agent's context, so the
command always succeeds: if the store cannot be reached, the output says so.
"""

import argparse

from octostore.cli.owners import KEEPING_OWNER_DEFAULT
from octostore.cli.prime import prime
from octostore.cli.subcommands import Arguments, Context

EXAMPLES = [
    "octostore prime",
    "octostore prime github-issue- --owner agent-3    # other owners' jobs: only those with this prefix",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "prefix", metavar="PREFIX", nargs="?", help="show other owners' jobs only if their names begin with this"
    )
    parser.add_argument("--owner", metavar="O", help=f"who you are (default: {KEEPING_OWNER_DEFAULT})")


def run(arguments: Arguments, context: Context) -> None:
    prime_text = prime(arguments.owner, context.address, arguments.prefix)
    context.console.print_result(prime_text, *prime_text.text.splitlines())
