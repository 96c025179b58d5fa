"""End a claim.

Outcomes: released (free again, or back in its queue); done (finished; later claims get `done`); failed (an enqueued
job is retried later, or dead after its last attempt); deferred (retried later without using up an attempt). Repeating a
release is safe and has no further effect. The exit code is 20 if the lease is lost.

A claim made with --keep is found by your owner name; name the JOB if you keep several.
"""

import argparse
from typing import get_args

from octostore.cli import words
from octostore.cli.leases import add_job, add_lease_options, using_lease
from octostore.cli.options import json_value, seconds
from octostore.cli.subcommands import Arguments, Context
from octostore.core.model import Outcome

EXAMPLES = [
    "octostore release --outcome done    # the claim that is kept for you",
    "octostore release github-issue-1842",
    "octostore release github-issue-1842 --outcome done --result '{\"pr\": 77}'",
    "octostore release sync-72 --outcome deferred --retry-after 15m --note 'out of quota'",
]


def configure(parser: argparse.ArgumentParser) -> None:
    add_job(parser)
    add_lease_options(parser)
    parser.add_argument(
        "--outcome", choices=get_args(Outcome), default="released", help="how it went (default: released)"
    )
    parser.add_argument(
        "--result",
        type=json_value,
        metavar="JSON",
        help="the result, with --outcome done; @FILE and - (stdin) also work",
    )
    parser.add_argument("--error", metavar="TEXT", help="why it failed")
    parser.add_argument("--note", metavar="TEXT", help="a note for the next owner")
    parser.add_argument(
        "--retry-after",
        type=seconds,
        metavar="S",
        help="with --outcome failed or deferred: how long until the job can be claimed again (default: 60 if deferred)",
    )


def run(arguments: Arguments, context: Context) -> None:
    with using_lease(arguments.job, arguments, context) as lease, context.address.open() as store:
        reply = store.release_job(
            lease.job_id,
            lease.lease_id,
            arguments.outcome,
            fencing_token=lease.fencing_token,
            result=arguments.result,
            error=arguments.error,
            note=arguments.note,
            retry_after=arguments.retry_after,
        )
        lease.forget()
    wait = words.wait_until(reply.available_at, words.now())
    again = "" if wait is None else f", available in {wait}"
    how = "" if reply.outcome in {reply.status, "released"} else f" ({reply.outcome})"
    context.console.print_result(reply, f"{reply.job_id} is {reply.status}{how}{again}")
