"""Put a job in a queue. Nothing changes if the job is done or already enqueued, even if it is claimed or dead.

To run a dead job again, use `octostore requeue`.

If TRACEPARENT, a W3C trace context, is in the environment, it is stored with the job.
"""

import argparse
import os

from octostore.cli.options import integer, json_value, moment, seconds
from octostore.cli.subcommands import Arguments, Context
from octostore.core.limits import MAX_ATTEMPTS_DEFAULT, PRIORITY_DEFAULT
from octostore.core.traceparent import traceparent_from

EXAMPLES = [
    "octostore enqueue review --payload '{\"pr\": 77}' --queue reviews",
    "octostore enqueue report --job-id report-2026-11-16 --in 30m",
    "cat big.json | octostore enqueue import --payload -",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", help="what to do; workers can select jobs by kind")
    parser.add_argument(
        "--payload", type=json_value, metavar="JSON", help="what the worker gets; @FILE and - (stdin) also work"
    )
    parser.add_argument("--queue", default="default", metavar="Q", help="the job's queue (default: `default`)")
    parser.add_argument("--job-id", metavar="J", help="the job's name (default: generated)")
    parser.add_argument(
        "--priority",
        type=integer,
        default=PRIORITY_DEFAULT,
        metavar="N",
        help=f"lower numbers run first (default: {PRIORITY_DEFAULT})",
    )
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--run-at", type=moment, metavar="TIME", help="do not run the job before this time, e.g. 2026-11-16T06:00:00Z"
    )
    when.add_argument("--in", dest="delay", type=seconds, metavar="S", help="how long to wait before the job can run")
    parser.add_argument(
        "--max-attempts",
        type=integer,
        default=MAX_ATTEMPTS_DEFAULT,
        metavar="N",
        help=f"number of attempts before the job is dead (default: {MAX_ATTEMPTS_DEFAULT})",
    )


def run(arguments: Arguments, context: Context) -> None:
    with context.address.open() as store:
        reply = store.enqueue(
            arguments.kind,
            arguments.payload,
            job_id=arguments.job_id,
            queue=arguments.queue,
            priority=arguments.priority,
            run_at=arguments.run_at,
            delay=arguments.delay,
            max_attempts=arguments.max_attempts,
            traceparent=traceparent_from(os.environ.get("TRACEPARENT")),
        )
    said = f"enqueued {reply.job_id} in {reply.queue}"
    if not reply.created:
        said = f"{reply.job_id} already exists and is {reply.status}; nothing changed"
    context.console.print_result(reply, said)
