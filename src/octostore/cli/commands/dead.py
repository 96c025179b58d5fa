"""List dead jobs: out of attempts, or cancelled.

`octostore requeue` runs them again and `octostore discard` drops them: the ones you name, or all with --all. --story
shows everything about each job: payload, error, last attempts, and full history.
"""

import argparse
from collections.abc import Iterator
from datetime import datetime

from octostore.cli import words
from octostore.cli.completers import job_names, queue_names
from octostore.cli.console import Console
from octostore.cli.job_names import find_similar, unknown_job_message
from octostore.cli.story import describe_attempts, describe_job_event
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.client.reader import Reader
from octostore.core.events import Event
from octostore.core.replies import JobPage, JobView

EXAMPLES = [
    "octostore dead",
    "octostore dead import-17 --story",
    "octostore dead --queue reviews --json | jq -r '.jobs[].job_id'",
    "octostore dead --story --json    # one document per line, with `job` and its `events`",
]
HEADER = ("JOB", "QUEUE", "KIND", "ATTEMPTS", "LAST CLAIM", "ERROR")


def configure(parser: argparse.ArgumentParser) -> None:
    set_completer(
        parser.add_argument("prefix", metavar="PREFIX", nargs="?", help="only jobs whose names begin with this"),
        job_names,
    )
    set_completer(parser.add_argument("--queue", metavar="Q", help="only jobs of this queue"), queue_names)
    parser.add_argument("--story", action="store_true", help="show each job in full, with its history")


def run(arguments: Arguments, context: Context) -> None:
    with context.address.open_reader() as store:
        jobs = store.dead_jobs(arguments.prefix, queue=arguments.queue)
        if arguments.story and jobs:
            for job in jobs:
                _print_story(store, job.job_id, context.console)
        elif jobs:
            context.console.print_result(JobPage(jobs=jobs, cursor=None), *_lines(jobs, context.console))
        elif arguments.story:
            context.console.print_message(_none(store, arguments))
        else:
            context.console.print_result(JobPage(jobs=jobs, cursor=None), _none(store, arguments))


def _none(store: Reader, arguments: Arguments) -> str:
    prefix = arguments.prefix
    nothing = "no dead jobs" + ("" if arguments.queue is None else f" in queue {arguments.queue}")
    if prefix is None:
        return nothing
    similar = find_similar(store, prefix)
    if similar is None or any(name.startswith(prefix) for name in similar):
        return f"{nothing} begin with {prefix}"
    return unknown_job_message(prefix, similar)


# All of them


def _lines(jobs: list[JobView], console: Console) -> list[str]:
    now = words.now()
    hint = "details: octostore dead JOB --story; then octostore requeue JOB … or octostore discard JOB … (or --all)"
    return [*console.table(HEADER, [_row(job, now) for job in jobs]), "", hint]


def _row(job: JobView, now: datetime) -> tuple[str, ...]:
    return (
        job.job_id,
        job.queue or "",
        job.kind or "",
        "" if job.max_attempts is None else f"{job.attempts}/{job.max_attempts}",
        words.ago(job.previous[0].ended_at, now) if job.previous else "",
        words.one_line(_why(job)),
    )


def _why(job: JobView) -> str:
    """Its error, or how it ended: an expiry has no error, a cancellation needs no reason, a failure no text."""
    return job.error or job.last_outcome or ""


# One by one


def _print_story(store: Reader, job_id: str, console: Console) -> None:
    job = store.get_job(job_id)
    events = list(store.events(job_id=job_id))
    console.print_result({"job": job, "events": events}, *_story(job, events, console), "")


def _story(job: JobView, events: list[Event], console: Console) -> Iterator[str]:
    what = "never enqueued" if job.kind is None else f"{job.kind} in queue {job.queue}"
    yield f"{console.style(job.job_id, 'bold')} is {job.status}: {what}"
    if job.max_attempts is not None:
        yield f"  attempts  {job.attempts} of {job.max_attempts} used"
    first, *rest = words.visible_lines(_why(job)) or [""]
    yield f"  error     {first}"
    yield from (f"            {line}".rstrip() for line in rest)
    if job.payload is not None:
        yield f"  payload   {words.as_json(job.payload)}"
    if job.note:
        yield f"  note      {words.one_line(job.note)}"
    if job.previous:
        yield "last attempts"
        yield from (f"  {line}" for line in describe_attempts(job.previous))
    yield "story"
    yield from (describe_job_event(event) for event in events)
