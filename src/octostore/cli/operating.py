"""Operator commands on one or more jobs, each with its own result."""

import argparse
from collections.abc import Callable
from contextlib import suppress

from octostore.cli import exit_codes, words
from octostore.cli.completers import job_names
from octostore.cli.failures import print_failure
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.client.store import OctoStore
from octostore.core.errors import Conflict, NotAllowed, NotFound
from octostore.core.replies import JobView


def add_operator_options(parser: argparse.ArgumentParser, *, can_be_all: bool = False) -> None:
    """With `can_be_all`, job names are optional."""
    nargs = "*" if can_be_all else "+"
    set_completer(parser.add_argument("jobs", metavar="JOB", nargs=nargs, help="names of the jobs"), job_names)
    parser.add_argument("--reason", metavar="TEXT", help="why; shown in the log and to those affected")


def operate(
    arguments: Arguments,
    context: Context,
    change: Callable[[OctoStore, str], JobView],
    changed: str = "",
) -> int:
    """Change each job. A refused change does not affect the others; the exit code is that of the last refusal.

    `changed` is the past participle, for changes that the new status does not explain.
    """
    code = exit_codes.SUCCESS
    with context.address.open() as store:
        for job_id in arguments.jobs:
            before = _find_job(store, job_id)
            try:
                job = change(store, job_id)
            except (Conflict, NotFound) as error:
                code = print_failure(error, context)
            else:
                context.console.print_result(job, _summary(job, before, changed))
    return code


def _find_job(store: OctoStore, job_id: str) -> JobView | None:
    """None if this token may not read: the change then says which right is missing."""
    with suppress(NotAllowed):
        return store.get_job(job_id)
    return None


def _summary(job: JobView, before: JobView | None, changed: str) -> str:
    claim, earlier = job.claim, None if before is None else before.claim
    if job == before and claim is None:
        return f"{job.job_id} is {job.status}; nothing changed"
    if changed:
        return f"{changed} {job.job_id}: it is {job.status} now"
    if claim is None:
        taken = f", taken from {earlier.owner}" if earlier is not None else ""
        return f"{job.job_id} is {job.status} now{taken}"
    stop = claim.stop_requested
    if stop is None:
        return f"{job.job_id} is {job.status} now"
    asked = None if earlier is None else earlier.stop_requested
    if asked is not None and (asked.requested_at, asked.cancels) == (stop.requested_at, stop.cancels):
        why = f" ({words.one_line(stop.reason)})" if stop.reason else ""
        return f"{claim.owner} was already asked to stop {job.job_id}{why}; nothing changed"
    if stop.delivered_at is None:
        what = f"at its next heartbeat, {claim.owner} will be asked to stop {job.job_id}"
    else:
        what = f"{claim.owner} has been asked to stop {job.job_id}"
    return what + (f"; the job will be cancelled when {claim.owner} stops" if stop.cancels else "")
