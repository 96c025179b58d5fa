"""What operators do to jobs: to one, or to many, each of which gets its own answer."""

import argparse
from collections.abc import Callable

from octostore.cli import exits
from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import job_names
from octostore.cli.failing import tell_failure
from octostore.client.store import OctoStore
from octostore.core.errors import Conflict, NotFound
from octostore.core.replies import JobView


def add_operator_options(parser: argparse.ArgumentParser) -> None:
    completed_by(parser.add_argument("jobs", metavar="JOB", nargs="+", help="their names"), job_names)
    parser.add_argument("--reason", metavar="TEXT", help="for the log, and for whoever it concerns")


def operate(arguments: Arguments, context: Context, change: Callable[[OctoStore, str], JobView]) -> int:
    """One that cannot be changed does not keep the others from it; the last such gives the exit code."""
    code = exits.DID
    with context.place.open() as store:
        for job_id in arguments.jobs:
            before = store.get_job_owner(job_id)
            try:
                job = change(store, job_id)
            except (Conflict, NotFound) as error:
                code = tell_failure(error, context)
            else:
                taken = f"; it was taken from {before.owner}" if before is not None and job.claim is None else ""
                context.console.answer(job, f"{job.job_id} is {job.status} now{taken}")
    return code
