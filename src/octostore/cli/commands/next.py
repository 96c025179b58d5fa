"""Claim the next job of a queue. Exit code 10 if the queue is empty.

With --keep it stays yours without heartbeats until you release it; see `octostore claim --help`.
"""

import argparse
from functools import partial
from typing import TYPE_CHECKING

from octostore.cli.command import Arguments, Context
from octostore.cli.commands.claim import add_claim_options, carry_out
from octostore.core.replies import ClaimReply

if TYPE_CHECKING:
    from octostore.client.store import OctoStore

EXAMPLES = [
    "octostore next reviews --owner agent-3 --keep    # then: octostore release --outcome done",
    "octostore next reviews --owner agent-3 --ttl 10m",
    "octostore next reviews --owner agent-3 --kind review --wait 1h --json",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE", help="its name")
    parser.add_argument("--kind", action="append", metavar="K", help="only jobs of this kind; repeatable")
    add_claim_options(parser)


def run(arguments: Arguments, context: Context) -> int:
    return carry_out(arguments, context, partial(_claim, arguments))


def _claim(arguments: Arguments, store: "OctoStore", owner: str, pid: int | None) -> ClaimReply:
    return store.claim_next(
        arguments.queue,
        kinds=arguments.kind,
        owner=owner,
        metadata=arguments.metadata,
        ttl=arguments.ttl,
        wait=arguments.wait,
        session_id=arguments.session,
        request_id=arguments.request_id,
        max_silence=arguments.max_silence,
        pid=pid,
    )
