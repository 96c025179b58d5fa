"""Cancel jobs: they become dead, and their owners, if any, lose their leases. `requeue` brings them back."""

import argparse

from octostore.cli.operating import add_operator_options, operate
from octostore.cli.subcommands import Arguments, Context

EXAMPLES = [
    "octostore cancel import-17 --reason 'no longer needed'",
    "octostore cancel import-17 --drain    # lets the owner finish up first",
]


def configure(parser: argparse.ArgumentParser) -> None:
    add_operator_options(parser)
    parser.add_argument(
        "--drain",
        action="store_true",
        help="ask owners to stop, as `octostore stop` does, and cancel their jobs once they have stopped",
    )


def run(arguments: Arguments, context: Context) -> int:
    return operate(
        arguments, context, lambda store, job: store.cancel(job, reason=arguments.reason, drain=arguments.drain)
    )
