"""Put a job in a queue. With the id of one that was enqueued before, nothing changes."""

import argparse
from datetime import datetime, timedelta

from octostore.cli import words
from octostore.cli.command import Arguments, Context
from octostore.cli.options import json_value, seconds, whole
from octostore.core.errors import InvalidInput
from octostore.core.limits import MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT

EXAMPLES = [
    "octostore enqueue review --payload '{\"pr\": 77}' --queue reviews",
    "octostore enqueue report --job-id report-2026-11-16 --in 30m",
    "cat big.json | octostore enqueue import --payload -",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", help="what is to be done; workers may choose by it")
    parser.add_argument("--payload", type=json_value, metavar="JSON", help="what the worker gets; also @FILE, or -")
    parser.add_argument("--queue", default="default", metavar="Q", help="the name of the queue (default)")
    parser.add_argument("--job-id", metavar="J", help="its name; one is drawn by default")
    parser.add_argument(
        "--priority", type=whole, default=PRIORITY_DEFAULT, metavar="N", help=f"lower runs first ({PRIORITY_DEFAULT})"
    )
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--run-at", type=_moment, metavar="TIME", help="not before, as 2026-11-16T06:00:00Z")
    when.add_argument("--in", dest="delay", type=seconds, metavar="S", help="not before so much time has passed")
    parser.add_argument(
        "--max-attempts",
        type=whole,
        default=MAX_ATTEMPTS_DEFAULT,
        metavar="N",
        help=f"how often it is tried before it is dead ({MAX_ATTEMPTS_DEFAULT})",
    )


def run(arguments: Arguments, context: Context) -> None:
    run_at = arguments.run_at
    if arguments.delay is not None:
        run_at = _after(arguments.delay)
    with context.place.open() as store:
        reply = store.enqueue(
            arguments.kind,
            arguments.payload,
            job_id=arguments.job_id,
            queue=arguments.queue,
            priority=arguments.priority,
            run_at=run_at,
            max_attempts=arguments.max_attempts,
        )
    said = f"enqueued {reply.job_id} in {reply.queue}"
    if not reply.created:
        said = f"{reply.job_id} had been enqueued before, and is {reply.status}; nothing has changed"
    context.console.answer(reply, said)


def _after(delay: float) -> datetime:
    try:
        return words.now() + timedelta(seconds=delay)
    except OverflowError:
        raise InvalidInput("run_at", "would be after the year 9999") from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; it looks like 2026-11-16T06:00:00Z") from None
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} lacks its time zone; put Z behind it for UTC")
    return moment
