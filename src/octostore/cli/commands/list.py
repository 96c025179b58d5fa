"""List claimed jobs and their owners, or jobs of another status."""

import argparse
import time
from collections.abc import Iterator
from datetime import datetime
from typing import NoReturn, get_args

from octostore.cli import words
from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import job_names
from octostore.cli.console import Console
from octostore.cli.options import positive, seconds
from octostore.client.reader import Reader
from octostore.core.beats import is_late
from octostore.core.limits import PAGE_MAX
from octostore.core.model import Status
from octostore.core.replies import JobOwner, JobPage, JobView

EXAMPLES = [
    "octostore list",
    "octostore list github-issue- --watch    # keeps refreshing",
    "octostore list --status queued --queue builds --json",
]
LIMIT_DEFAULT = 1_000
SHORTEST_INTERVAL = 0.1
CLAIMED_HEADER = ("JOB", "OWNER", "SINCE", "HEARTBEAT", "LEFT", "PROGRESS", "ATTEMPT")
HEADER = ("JOB", "STATUS", "OWNER", "QUEUE", "KIND", "ATTEMPTS", "LAST")


def configure(parser: argparse.ArgumentParser) -> None:
    completed_by(
        parser.add_argument("prefix", metavar="PREFIX", nargs="?", help="only jobs whose names begin with this"),
        job_names,
    )
    parser.add_argument(
        "--status", choices=[*get_args(Status), "all"], default="claimed", help="only jobs with this status (claimed)"
    )
    parser.add_argument("--queue", metavar="Q", help="only jobs of this queue")
    parser.add_argument(
        "--limit", type=positive, default=LIMIT_DEFAULT, metavar="N", help=f"maximum number of jobs ({LIMIT_DEFAULT:,})"
    )
    parser.add_argument("--watch", action="store_true", help="keep refreshing until Ctrl-C")
    parser.add_argument(
        "--interval", type=_interval, default=1, metavar="S", help="how often to refresh with --watch (1)"
    )


def run(arguments: Arguments, context: Context) -> None:
    with context.place.look() as store:
        if arguments.watch:
            _watch(store, arguments, context.console)
        page = _jobs(store, arguments)
    context.console.answer(page, *_lines(page, arguments, context.console))


def _interval(text: str) -> float:
    interval = seconds(text)
    if interval < SHORTEST_INTERVAL:
        raise argparse.ArgumentTypeError(f"{text!r} is too short; the minimum is {SHORTEST_INTERVAL}")
    return interval


def _jobs(store: Reader, arguments: Arguments) -> JobPage:
    jobs: list[JobView] = []
    status = None if arguments.status == "all" else arguments.status
    limit = min(arguments.limit, PAGE_MAX)
    for page in store.job_pages(arguments.prefix, status=status, queue=arguments.queue, limit=limit):
        jobs += page.jobs
        if len(jobs) >= arguments.limit:
            break
    shown = jobs[: arguments.limit]
    is_all = page.cursor is None and len(shown) == len(jobs)
    return JobPage(jobs=shown, cursor=None if is_all else shown[-1].job_id)


def _watch(store: Reader, arguments: Arguments, console: Console) -> NoReturn:
    """Heartbeats are no events, so it looks; what has not changed is not said twice where nobody can paint over it."""
    console.end_with_reader()
    if console.is_live:
        console.clear()
    said = None
    while True:
        page = _jobs(store, arguments)
        if console.is_live:
            place = f"{words.now():%H:%M:%S} UTC  (Ctrl-C ends)"
            console.repaint([console.style(place, "dim"), "", *_lines(page, arguments, console)])
        elif _what_matters(page) != said:
            said = _what_matters(page)
            console.answer(page, *_lines(page, arguments, console), "")
        time.sleep(arguments.interval)


def _what_matters(page: JobPage) -> object:
    return [(job.job_id, job.status, job.claim and _what_moves(job.claim)) for job in page.jobs]


def _what_moves(claim: JobOwner) -> object:
    return claim.fencing_token, claim.progress, claim.stuck


def _lines(page: JobPage, arguments: Arguments, console: Console) -> Iterator[str]:
    now = words.now()
    if not page.jobs:
        which = "" if arguments.status == "all" else f"{arguments.status} "
        named = f" that begin with {arguments.prefix}" if arguments.prefix else ""
        yield f"no {which}jobs{named}"
        return
    if arguments.status == "claimed":
        yield from console.table(CLAIMED_HEADER, [_claimed_row(job, now) for job in page.jobs])
    else:
        yield from console.table(HEADER, [_row(job, now) for job in page.jobs])
    if page.cursor is not None:
        yield console.style("… and more; raise --limit to see them", "dim")


def _claimed_row(job: JobView, now: datetime) -> tuple[str, ...]:
    claim = job.claim
    if claim is None:
        return (job.job_id, *[""] * (len(CLAIMED_HEADER) - 1))
    progress = claim.progress
    percent = "" if progress is None or progress.percent is None else f"{progress.percent:g} % "
    return (
        job.job_id,
        claim.owner,
        words.ago(claim.claimed_at, now),
        words.ago(claim.heartbeat_at, now) + _remark(claim, now),
        words.until(claim.expires_at, now),
        percent + (words.gist(progress.note or "") if progress else ""),
        str(claim.attempt),
    )


def _remark(claim: JobOwner, now: datetime) -> str:
    if is_late(claim.heartbeat_at, claim.expires_at, now):
        return " (late)"
    return " (stuck)" if claim.stuck else ""


def _row(job: JobView, now: datetime) -> tuple[str, ...]:
    last = job.previous[0] if job.previous else None
    said = job.error or (last and (last.error or last.note)) or ""
    return (
        job.job_id,
        job.status,
        job.owner or "",
        job.queue or "",
        job.kind or "",
        "" if job.max_attempts is None else f"{job.attempts}/{job.max_attempts}",
        f"{last.how} {words.ago(last.ended_at, now)} {words.gist(said)}".strip() if last else "",
    )
