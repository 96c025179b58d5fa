"""Jobs that are out of attempts or cancelled, and wait for a person."""

import argparse

from octostore.cli import exits, words
from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import job_names
from octostore.core.replies import JobPage

EXAMPLES = ["octostore dead", "octostore dead --queue reviews --json | jq -r '.jobs[].job_id'"]
HEADER = ("JOB", "QUEUE", "KIND", "ATTEMPTS", "SINCE", "ERROR")


def configure(parser: argparse.ArgumentParser) -> None:
    completed_by(
        parser.add_argument("prefix", metavar="PREFIX", nargs="?", help="of their names; all by default"), job_names
    )
    parser.add_argument("--queue", metavar="Q", help="only those of this queue")


def run(arguments: Arguments, context: Context) -> int:
    with context.place.open() as store:
        jobs = store.dead_jobs(arguments.prefix, queue=arguments.queue)
    now = words.now()
    rows = [
        (
            job.job_id,
            job.queue or "",
            job.kind or "",
            f"{job.attempts}/{job.max_attempts}",
            words.ago(job.previous[0].ended_at, now) if job.previous else "",
            words.gist(job.error or "cancelled"),
        )
        for job in jobs
    ]
    lines = ["no job is dead"]
    if rows:
        lines = [*context.console.table(HEADER, rows), "", "octostore owner JOB tells more; octostore requeue JOB …"]
    context.console.answer(JobPage(jobs=jobs, cursor=None), *lines)
    return exits.DID
