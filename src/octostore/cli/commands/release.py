"""End the claim.

Outcomes: released (free again, or back in its queue); done (finished; later claims get `done`); failed (an enqueued
job is retried later, or dead after its last attempt); deferred (retried later without using up an attempt). Repeating a
release is safe and gives the same answer. Exit code 20 if the lease is lost.
"""

import argparse
from typing import get_args

from octostore.cli import words
from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.commands.heartbeat import add_lease_option, fencing_token
from octostore.cli.completing import job_names
from octostore.cli.options import json_value, lease_id, seconds
from octostore.core.model import Outcome

EXAMPLES = [
    "octostore release github-issue-1842",
    "octostore release github-issue-1842 --outcome done --result '{\"pr\": 77}'",
    "octostore release sync-72 --outcome deferred --retry-after 15m --note 'out of quota'",
]


def configure(parser: argparse.ArgumentParser) -> None:
    completed_by(parser.add_argument("job", metavar="JOB", help="its name"), job_names)
    add_lease_option(parser)
    parser.add_argument("--outcome", choices=get_args(Outcome), default="released", help="how it went (released)")
    parser.add_argument(
        "--result",
        type=json_value,
        metavar="JSON",
        help="the result, with --outcome done; @FILE or - (stdin) also work",
    )
    parser.add_argument("--error", metavar="TEXT", help="why it failed")
    parser.add_argument("--note", metavar="TEXT", help="for the next owner")
    parser.add_argument(
        "--retry-after",
        type=seconds,
        metavar="S",
        help="how long until it can be claimed again, if failed or deferred (deferred: 60)",
    )


def run(arguments: Arguments, context: Context) -> None:
    lease = lease_id(arguments.lease_id)
    with context.place.open() as store:
        reply = store.release_job(
            arguments.job,
            lease,
            arguments.outcome,
            fencing_token=fencing_token(arguments.job),
            result=arguments.result,
            error=arguments.error,
            note=arguments.note,
            retry_after=arguments.retry_after,
        )
    now = words.now()
    again = "" if reply.available_at <= now else f", available in {words.until(reply.available_at, now)}"
    how = "" if reply.outcome in {reply.status, "released"} else f" ({reply.outcome})"
    context.console.answer(reply, f"{reply.job_id} is {reply.status}{how}{again}")
