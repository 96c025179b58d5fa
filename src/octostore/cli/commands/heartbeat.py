"""Prove you are alive and renew the lease for its TTL. The exit code is 20 if the lease is lost.

A claim made with --keep does not need this.
"""

import argparse
from collections.abc import Iterator

from octostore.cli import words
from octostore.cli.console import Console
from octostore.cli.leases import Lease, add_job, add_lease_options, using_lease
from octostore.cli.options import number, seconds
from octostore.cli.subcommands import Arguments, Context
from octostore.core.errors import InvalidInput
from octostore.core.replies import HeartbeatReply, StopView

EXAMPLES = [
    "octostore heartbeat github-issue-1842 --progress 'running tests' --percent 40",
    "octostore heartbeat deploy --ttl 10m    # the lease now lasts 10 minutes",
]


def configure(parser: argparse.ArgumentParser) -> None:
    add_job(parser)
    add_lease_options(parser)
    parser.add_argument("--ttl", type=seconds, metavar="S", help="new TTL, starting now (default: unchanged)")
    parser.add_argument("--progress", metavar="TEXT", help="what you are doing, for others to see")
    parser.add_argument("--percent", type=number, metavar="N", help="how far along you are, 0 to 100")


def run(arguments: Arguments, context: Context) -> None:
    with using_lease(arguments.job, arguments, context) as lease:
        if lease.kept is not None and arguments.ttl is not None:
            raise InvalidInput(
                "--ttl", "cannot change while the claim is kept; its keeper sends heartbeats for the old TTL"
            )
        with context.address.open() as store:
            reply = store.heartbeat_job(
                lease.job_id,
                lease.lease_id,
                fencing_token=lease.fencing_token,
                ttl=arguments.ttl,
                progress=arguments.progress,
                percent=arguments.percent,
            )
    print_heartbeat(reply, lease, context.console)


def print_heartbeat(reply: HeartbeatReply, lease: Lease, console: Console, *, shown: str | None = None) -> None:
    """`shown` is the progress reported with it."""
    seen = [] if shown is None else [f"others see: {words.one_line(shown)}"]
    console.print_result(reply, *seen, _until(reply, lease), *stop_request_lines(reply.stop_requested))


def _until(reply: HeartbeatReply, lease: Lease) -> str:
    if lease.kept is not None and lease.kept.is_kept:
        return f"{reply.job_id} is yours; process {lease.kept.keeper.pid} sends heartbeats for it"
    gone = "" if lease.kept is None else "its keeper is gone, so send the "
    until = f"{reply.job_id} is yours until {words.clock(reply.expires_at, words.now())} UTC"
    return f"{until}; {gone}next heartbeat in {words.duration(reply.renew_after_ms / 1_000)}"


def stop_request_lines(stop: StopView | None) -> Iterator[str]:
    if stop is not None:
        why = f" ({words.one_line(stop.reason)})" if stop.reason else ""
        yield f"{stop.requested_by} asked you to stop{why}; release the job once you have stopped"
