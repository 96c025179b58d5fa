"""What operators do to jobs: to one, or to many, each of which gets its own answer."""

import argparse
from collections.abc import Callable

from octostore.cli import exits
from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import job_names
from octostore.cli.failing import tell_failure
from octostore.client.store import OctoStore
from octostore.core.errors import Conflict, NotFound
from octostore.core.replies import JobOwner, JobView


def add_operator_options(parser: argparse.ArgumentParser, *, can_be_all: bool = False) -> None:
    """`can_be_all`: where no names are needed for that."""
    nargs = "*" if can_be_all else "+"
    completed_by(parser.add_argument("jobs", metavar="JOB", nargs=nargs, help="names of the jobs"), job_names)
    parser.add_argument("--reason", metavar="TEXT", help="why; shown in the log and to those affected")


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
                context.console.answer(job, _told(job, before))
    return code


def _told(job: JobView, before: JobOwner | None) -> str:
    claim = job.claim
    if claim is None:
        taken = f", taken from {before.owner}" if before is not None else ""
        return f"{job.job_id} is {job.status} now{taken}"
    asked = claim.stop_requested
    if asked is None:
        return f"{job.job_id} is {job.status} now"
    told = f"has been told to stop {job.job_id}"
    if asked.delivered_at is None:
        told = f"will be told to stop {job.job_id} at its next heartbeat"
    return f"{claim.owner} {told}" + ("; the job is cancelled when it stops" if asked.cancels else "")
