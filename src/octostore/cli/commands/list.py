"""List claimed jobs and their owners, or jobs with another status.

With --queue, list every job in that queue: waiting jobs in the order in which they will run, then claimed, dead and
done ones.
"""

import argparse
import time
from collections.abc import Iterator
from datetime import datetime
from typing import NoReturn, get_args

from octostore.cli import words
from octostore.cli.completers import job_names, queue_names
from octostore.cli.console import Console
from octostore.cli.options import positive_integer, seconds
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.client.reader import Reader
from octostore.core.beats import is_late
from octostore.core.limits import PAGE_MAX
from octostore.core.model import Status
from octostore.core.replies import JobOwner, JobPage, JobView

EXAMPLES = [
    "octostore list",
    "octostore list github-issue- --watch    # keeps refreshing",
    "octostore list --queue builds",
    "octostore list --owner agent-3    # what it has now",
    "octostore list --status queued --queue builds --json",
]
ALL = "all"
LIMIT_DEFAULT = 1_000
SHORTEST_INTERVAL = 0.1
CLAIMED_HEADER = ("JOB", "OWNER", "SINCE", "HEARTBEAT", "LEFT", "PROGRESS", "ATTEMPT")
QUEUE_HEADER = ("JOB", "STATUS", "DUE", "PRIORITY", "ATTEMPTS", "AGE", "KIND", "OWNER")
HEADER = ("JOB", "STATUS", "OWNER", "QUEUE", "KIND", "ATTEMPTS", "LAST")


def configure(parser: argparse.ArgumentParser) -> None:
    set_completer(
        parser.add_argument("prefix", metavar="PREFIX", nargs="?", help="only jobs whose names begin with this"),
        job_names,
    )
    parser.add_argument(
        "--status",
        choices=[*get_args(Status), ALL],
        help="only jobs with this status (default: claimed, or all with --queue)",
    )
    set_completer(
        parser.add_argument(
            "--queue", metavar="Q", help="only jobs of this queue, in the order in which they will run"
        ),
        queue_names,
    )
    parser.add_argument("--owner", metavar="O", help="only jobs that this owner has now")
    parser.add_argument("--kind", metavar="K", help="only jobs of this kind")
    parser.add_argument(
        "--limit",
        type=positive_integer,
        default=LIMIT_DEFAULT,
        metavar="N",
        help=f"maximum number of jobs (default: {LIMIT_DEFAULT:,})",
    )
    parser.add_argument("--watch", action="store_true", help="keep refreshing until Ctrl-C")
    parser.add_argument(
        "--interval", type=_interval, default=1, metavar="S", help="how often to refresh with --watch (default: 1)"
    )


def run(arguments: Arguments, context: Context) -> None:
    with context.address.open_reader() as store:
        if arguments.watch:
            _watch(store, arguments, context.console)
        page = _jobs(store, arguments)
    context.console.print_result(page, *_lines(page, arguments, context.console))


def _interval(text: str) -> float:
    interval = seconds(text)
    if interval < SHORTEST_INTERVAL:
        raise argparse.ArgumentTypeError(f"{text!r} is too short; the minimum is {SHORTEST_INTERVAL} seconds")
    return interval


def _status(arguments: Arguments) -> str:
    return arguments.status or ("claimed" if arguments.queue is None else ALL)


def _jobs(store: Reader, arguments: Arguments) -> JobPage:
    jobs: list[JobView] = []
    cursor: str | None = None
    while True:
        page = store.list_jobs(
            arguments.prefix,
            status=None if _status(arguments) == ALL else arguments.status or "claimed",
            queue=arguments.queue,
            owner=arguments.owner,
            kind=arguments.kind,
            limit=min(arguments.limit - len(jobs), PAGE_MAX),
            cursor=cursor,
            order="name" if arguments.queue is None else "run",
        )
        jobs += page.jobs
        cursor = page.cursor
        if cursor is None or len(jobs) >= arguments.limit:
            return JobPage(jobs=jobs, cursor=cursor)


def _watch(store: Reader, arguments: Arguments, console: Console) -> NoReturn:
    """Poll, because heartbeats are not events. Without a terminal, print only changes."""
    console.end_with_reader()
    if console.is_live:
        console.clear()
    printed = None
    while True:
        page = _jobs(store, arguments)
        if console.is_live:
            title = f"{words.now():%H:%M:%S} UTC  (Ctrl-C to stop)"
            console.repaint([console.style(title, "dim"), "", *_lines(page, arguments, console)])
        elif _comparable(page) != printed:
            printed = _comparable(page)
            console.print_result(page, *_lines(page, arguments, console), "")
        time.sleep(arguments.interval)


def _comparable(page: JobPage) -> object:
    """Without what changes at every heartbeat."""
    return [(job.job_id, job.status, job.claim and _comparable_claim(job.claim)) for job in page.jobs]


def _comparable_claim(claim: JobOwner) -> object:
    return claim.fencing_token, claim.progress, claim.stuck


def _lines(page: JobPage, arguments: Arguments, console: Console) -> Iterator[str]:
    now = words.now()
    if not page.jobs:
        yield from _nothing(arguments)
        return
    if arguments.queue is not None:
        yield from console.table(QUEUE_HEADER, [_queue_row(job, now) for job in page.jobs])
    elif _status(arguments) == "claimed":
        yield from console.table(CLAIMED_HEADER, [_claimed_row(job, now) for job in page.jobs])
    else:
        yield from console.table(HEADER, [_row(job, now) for job in page.jobs])
    if page.cursor is not None:
        yield console.style("… and more; raise --limit to see them", "dim")


def _nothing(arguments: Arguments) -> Iterator[str]:
    status, queue = _status(arguments), arguments.queue
    is_narrowed = any((arguments.prefix, arguments.kind, arguments.owner))
    which = "" if status == ALL else f"{status} "
    whose = f"owner {arguments.owner} has " if arguments.owner else ""
    named = f" of kind {arguments.kind}" if arguments.kind else ""
    named += "" if queue is None else f" in queue {queue}"
    named += f" that begin with {arguments.prefix}" if arguments.prefix else ""
    yield f"{whose}no {which}jobs{named}"
    if arguments.owner and status not in {ALL, "claimed"}:
        owner = words.shell_quote(arguments.owner)
        yield f"  next       octostore list --owner {owner}    # only claimed jobs have an owner"
    elif queue is not None and status == ALL and not is_narrowed:
        yield f"  next       octostore enqueue KIND --queue {words.shell_quote(queue)}"
    elif queue is None and status == "claimed" and not is_narrowed:
        yield "  next       octostore list --status all    # also queued, done and dead ones"
    elif queue is not None:
        yield f"  next       octostore list --queue {words.shell_quote(queue)}    # every job in it"


def _claimed_row(job: JobView, now: datetime) -> tuple[str, ...]:
    claim = job.claim
    if claim is None:
        return (job.job_id, *[""] * (len(CLAIMED_HEADER) - 1))
    return (
        job.job_id,
        claim.owner,
        words.ago(claim.claimed_at, now),
        words.ago(claim.heartbeat_at, now) + _warning(claim, now),
        words.until(claim.expires_at, now),
        _progress(claim, now),
        str(claim.attempt),
    )


def _progress(claim: JobOwner, now: datetime) -> str:
    if not claim.stuck or claim.last_progress_at is None or claim.max_silence is None:
        return words.progress(claim, now)
    reported = words.progress(claim, now) or f"none for {words.until(now, claim.last_progress_at)}"
    return f"{reported}, limit {words.duration(claim.max_silence)}"


def _warning(claim: JobOwner, now: datetime) -> str:
    if is_late(claim.heartbeat_at, claim.expires_at, now):
        return " (late)"
    return " (stuck)" if claim.stuck else ""


def _queue_row(job: JobView, now: datetime) -> tuple[str, ...]:
    due = ""
    if job.status == "queued" and job.available_at is not None:
        wait = words.wait_until(job.available_at, now)
        due = "now" if wait is None else f"in {wait}"
    return (
        job.job_id,
        job.status,
        due,
        "" if job.priority is None else str(job.priority),
        "" if job.max_attempts is None else f"{job.attempts}/{job.max_attempts}",
        "" if job.created_at is None else words.duration(max(0, int(words.seconds_between(job.created_at, now)))),
        job.kind or "",
        job.owner or "",
    )


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
        f"{last.how} {words.ago(last.ended_at, now)} {words.one_line(said)}".strip() if last else "",
    )
