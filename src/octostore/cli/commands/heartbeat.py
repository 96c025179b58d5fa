"""Prove you are alive and renew the lease for its TTL. Exit code 20 if the lease is lost."""

import argparse
import os
from collections.abc import Iterator

from octostore.cli import words
from octostore.cli.command import Arguments, Context, completed_by
from octostore.cli.completing import job_names
from octostore.cli.options import lease_id, number, seconds
from octostore.core.errors import InvalidInput
from octostore.core.replies import HeartbeatReply
from octostore.supervise.report import FENCING_VARIABLE, JOB_VARIABLE

EXAMPLES = [
    "octostore heartbeat github-issue-1842 --progress 'running tests' --percent 40",
    "octostore heartbeat deploy --ttl 10m    # the lease now lasts 10 minutes",
]


def configure(parser: argparse.ArgumentParser) -> None:
    completed_by(parser.add_argument("job", metavar="JOB", help="its name"), job_names)
    add_lease_option(parser)
    parser.add_argument("--ttl", type=seconds, metavar="S", help="new TTL, from now on (unchanged)")
    parser.add_argument("--progress", metavar="TEXT", help="what you are doing, for others to see")
    parser.add_argument("--percent", type=number, metavar="N", help="how far along you are, 0 to 100")


def add_lease_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lease-id", metavar="L", help="prefer OCTOSTORE_LEASE_ID: other users can see command-line arguments"
    )


def fencing_token(job: str) -> int | None:
    """The one that came with the lease, where it is known: a store that has gone back in time is told by it."""
    text = os.environ.get(FENCING_VARIABLE)
    if not text or os.environ.get(JOB_VARIABLE, job) != job:  # within `run`, but about another job
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(FENCING_VARIABLE, f"must be a whole number, not {text!r}") from None


def run(arguments: Arguments, context: Context) -> None:
    lease = lease_id(arguments.lease_id)
    with context.place.open() as store:
        reply = store.heartbeat_job(
            arguments.job,
            lease,
            fencing_token=fencing_token(arguments.job),
            ttl=arguments.ttl,
            progress=arguments.progress,
            percent=arguments.percent,
        )
    now = words.now()
    context.console.answer(
        reply,
        f"{reply.job_id} is yours until {words.clock(reply.expires_at, now)} UTC; next heartbeat in "
        f"{words.duration(reply.renew_after_ms / 1_000)}",
        *_stop(reply),
    )


def _stop(reply: HeartbeatReply) -> Iterator[str]:
    asked = reply.stop_requested
    if asked is not None:
        why = f": {words.gist(asked.reason)}" if asked.reason else ""
        yield f"{asked.requested_by} asked you to stop{why}; release the job when you have"
