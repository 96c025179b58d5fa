"""Claim the next job of a queue. Exit code 10 if the queue is empty."""

import argparse

from octostore.cli.claims import tell_claim
from octostore.cli.command import Arguments, Context
from octostore.cli.commands.claim import add_claim_options
from octostore.client.owner import person

EXAMPLES = [
    "octostore next reviews --owner agent-3 --ttl 10m",
    "octostore next reviews --owner agent-3 --kind review --wait 1h --json",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE", help="its name")
    parser.add_argument("--kind", action="append", metavar="K", help="only jobs of this kind; repeatable")
    add_claim_options(parser)


def run(arguments: Arguments, context: Context) -> int:
    with context.place.open() as store:
        reply = store.claim_next(
            arguments.queue,
            kinds=arguments.kind,
            owner=person() if arguments.owner is None else arguments.owner,
            metadata=arguments.metadata,
            ttl=arguments.ttl,
            wait=arguments.wait,
            session_id=arguments.session,
            request_id=arguments.request_id,
            max_silence=arguments.max_silence,
        )
    return tell_claim(reply, context.console, lease_only=arguments.lease)
