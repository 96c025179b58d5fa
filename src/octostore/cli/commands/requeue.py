"""Let dead or done jobs run again, with all their attempts, or such as wait for a retry run now."""

import argparse

from octostore.cli.command import Arguments, Context
from octostore.cli.operating import add_operator_options, operate

EXAMPLES = [
    "octostore requeue import-17 --reason 'the disk is larger now'",
    "octostore dead --json | jq -r '.jobs[].job_id' | xargs octostore requeue",
]


def configure(parser: argparse.ArgumentParser) -> None:
    add_operator_options(parser)


def run(arguments: Arguments, context: Context) -> int:
    return operate(arguments, context, lambda store, job: store.requeue(job, reason=arguments.reason))
