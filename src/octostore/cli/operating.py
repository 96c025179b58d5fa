"""Operator commands on one or more jobs, each with its own result."""

import argparse
from collections.abc import Callable

from octostore.cli import exit_codes
from octostore.cli.completers import job_names
from octostore.cli.failures import print_failure
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.client.store import OctoStore
from octostore.core.errors import Conflict, NotFound
from octostore.core.replies import JobOwner, JobView


def add_operator_options(parser: argparse.ArgumentParser, *, can_be_all: bool = False) -> None:
    """With `can_be_all`, job names are optional."""
    nargs = "*" if can_be_all else "+"
    set_completer(parser.add_argument("jobs", metavar="JOB", nargs=nargs, help="names of the jobs"), job_names)
    parser.add_argument("--reason", metavar="TEXT", help="why; shown in the log and to those affected")


def operate(
    arguments: Arguments,
    context: Context,
    change: Callable[[OctoStore, str], JobView],
    *,
    needs_owner: bool = False,
    changed: str = "",
) -> int:
    """Change each job. A refused change does not affect the others; the exit code is that of the last refusal.

    With `needs_owner`, say so if a job has none: the change does nothing then. `changed` is the past participle, for
    changes that the new status does not explain.
    """
    code = exit_codes.SUCCESS
    with context.address.open() as store:
        for job_id in arguments.jobs:
            before = store.get_job_owner(job_id)
            try:
                job = change(store, job_id)
            except (Conflict, NotFound) as error:
                code = print_failure(error, context)
            else:
                is_unchanged = needs_owner and before is None
                summary = (
                    f"{job.job_id} has no owner; nothing changed" if is_unchanged else _summary(job, before, changed)
                )
                context.console.print_result(job, summary)
    return code


def _summary(job: JobView, before: JobOwner | None, changed: str) -> str:
    claim = job.claim
    if changed:
        return f"{changed} {job.job_id}: it is {job.status} now"
    if claim is None:
        taken = f", taken from {before.owner}" if before is not None else ""
        return f"{job.job_id} is {job.status} now{taken}"
    stop = claim.stop_requested
    if stop is None:
        return f"{job.job_id} is {job.status} now"
    if stop.delivered_at is None:
        what = f"{claim.owner} will be asked to stop {job.job_id} at its next heartbeat"
    else:
        what = f"{claim.owner} has been asked to stop {job.job_id}"
    return what + ("; the job is cancelled when it stops" if stop.cancels else "")
