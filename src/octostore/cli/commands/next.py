"""Claim the next job of a queue. Exit code 10 if there is none now, with what else is in the queue.

`all_done` in the answer (with --json) tells "nothing for you now" (false) from "every job is done or dead" (true).
"""

import argparse

from octostore.cli.claims import tell_claim
from octostore.cli.command import Arguments, Context
from octostore.cli.commands.claim import add_claim_options
from octostore.cli.options import seconds
from octostore.client.owner import person
from octostore.client.store import OctoStore
from octostore.core.limits import WAIT_MAX_SECONDS
from octostore.core.replies import ClaimReply

EXAMPLES = [
    "octostore next reviews --owner agent-3 --ttl 10m",
    "octostore next reviews --owner agent-3 --kind review --wait 1h --json",
    "octostore next reviews --owner agent-3 --wait    # until there is one, or every job is done or dead",
]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE", help="its name")
    parser.add_argument("--kind", action="append", metavar="K", help="only jobs of this kind; repeatable")
    parser.add_argument(
        "--wait",
        nargs="?",
        type=_wait,
        default=0,
        metavar="S",
        help="how long to wait for a job, also for one that is yet to be enqueued (0); without S, until there is one "
        "or every job in the queue is done or dead",
    )
    add_claim_options(parser)


def _wait(text: str) -> float:
    try:
        return seconds(text)
    except argparse.ArgumentTypeError as problem:
        raise argparse.ArgumentTypeError(f"{problem}; without one, write the queue first: QUEUE --wait") from None


def run(arguments: Arguments, context: Context) -> int:
    with context.place.open() as store:
        reply = _claim(store, arguments)
        while arguments.wait is None and reply.status == "empty" and not reply.all_done:
            reply = _claim(store, arguments)
    return tell_claim(reply, context.console, lease_only=arguments.lease, kinds=arguments.kind)


def _claim(store: OctoStore, arguments: Arguments) -> ClaimReply:
    return store.claim_next(
        arguments.queue,
        kinds=arguments.kind,
        owner=person() if arguments.owner is None else arguments.owner,
        metadata=arguments.metadata,
        ttl=arguments.ttl,
        wait=WAIT_MAX_SECONDS if arguments.wait is None else arguments.wait,
        session_id=arguments.session,
        request_id=arguments.request_id,
        max_silence=arguments.max_silence,
        until_done=arguments.wait is None,
    )
