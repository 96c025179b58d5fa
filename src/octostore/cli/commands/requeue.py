"""Run dead or finished jobs again, or retry waiting ones now.

A dead job gets all its attempts back, or just one more with --keep-attempts.

--all requeues every dead job that matches, whether it is out of attempts or was cancelled. `octostore dead` lists them.
Each transaction requeues up to 100 jobs. Jobs that die again meanwhile stay dead. If the command is interrupted, run it
again for the rest.
"""

import argparse

from octostore.cli.matching import add_matching_options, operate_on_matching
from octostore.cli.subcommands import Arguments, Context

EXAMPLES = [
    "octostore requeue import-17 --reason 'the disk has been enlarged'",
    "octostore requeue import-17 --keep-attempts    # one more attempt; if that fails, the job is dead again",
    "octostore requeue --all --queue imports --reason 'the disk has been enlarged'",
]


def configure(parser: argparse.ArgumentParser) -> None:
    add_matching_options(parser)
    parser.add_argument("--keep-attempts", action="store_true", help="allow one more attempt instead of a full set")


def run(arguments: Arguments, context: Context) -> int:
    keep_attempts = arguments.keep_attempts
    return operate_on_matching(
        arguments,
        context,
        lambda store, job: store.requeue(job, reason=arguments.reason, keep_attempts=keep_attempts),
        lambda store, **terms: store.requeue_matching(**terms, keep_attempts=keep_attempts),
        "requeued",
    )
