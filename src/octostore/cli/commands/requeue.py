"""Run dead or finished jobs again, or retry waiting ones now.

A dead job gets all its attempts back, or just one more with --keep-attempts.
"""

import argparse

from octostore.cli.command import Arguments, Context
from octostore.cli.operating import add_operator_options, operate

EXAMPLES = [
    "octostore requeue import-17 --reason 'the disk has been enlarged'",
    "octostore requeue import-17 --keep-attempts    # one more try; if it fails, it is dead again",
    "octostore dead --json | jq -r '.jobs[].job_id' | xargs octostore requeue",
]


def configure(parser: argparse.ArgumentParser) -> None:
    add_operator_options(parser)
    parser.add_argument("--keep-attempts", action="store_true", help="allow one more attempt instead of all of them")


def run(arguments: Arguments, context: Context) -> int:
    return operate(
        arguments,
        context,
        lambda store, job: store.requeue(job, reason=arguments.reason, keep_attempts=arguments.keep_attempts),
    )
