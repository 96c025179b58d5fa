"""Let dead or done jobs run again, or such as wait for a retry run now.

A dead one gets all its attempts back, or with --keep-attempts one more.
"""

import argparse

from octostore.cli.command import Arguments, Context
from octostore.cli.operating import add_operator_options, operate

EXAMPLES = [
    "octostore requeue import-17 --reason 'the disk is larger now'",
    "octostore requeue import-17 --keep-attempts    # once more, and then it waits for a person again",
    "octostore dead --json | jq -r '.jobs[].job_id' | xargs octostore requeue",
]


def configure(parser: argparse.ArgumentParser) -> None:
    add_operator_options(parser)
    parser.add_argument("--keep-attempts", action="store_true", help="give it one more, instead of all anew")


def run(arguments: Arguments, context: Context) -> int:
    return operate(
        arguments,
        context,
        lambda store, job: store.requeue(job, reason=arguments.reason, keep_attempts=arguments.keep_attempts),
    )
