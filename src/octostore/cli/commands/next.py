"""Claim the next job of a queue. If there is none now, exit with 10 and show what else is in the queue.

With --json, `all_done` is true if every job is done or dead, and false if jobs remain that cannot be claimed now.

With --keep, a background process sends the heartbeats; see `octostore claim --help`.
"""

import argparse
from functools import partial
from typing import TYPE_CHECKING

from octostore.cli.commands.claim import add_claim_options, max_silence_for_store, run_claim
from octostore.cli.completers import queue_names
from octostore.cli.console import Console
from octostore.cli.options import seconds
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.core.limits import WAIT_MAX_SECONDS, check_range
from octostore.core.queue_words import queue_in_words
from octostore.core.replies import ClaimReply

if TYPE_CHECKING:
    from octostore.client.store import OctoStore

EXAMPLES = [
    "octostore next reviews --owner agent-3 --keep    # then: octostore release --outcome done",
    "octostore next reviews --owner agent-3 --ttl 10m",
    "octostore next reviews --owner agent-3 --kind review --wait 1h --json",
    "octostore next reviews --owner agent-3 --wait    # until you get a job, or every job is done or dead",
]


def configure(parser: argparse.ArgumentParser) -> None:
    set_completer(parser.add_argument("queue", metavar="QUEUE", help="queue name"), queue_names)
    parser.add_argument("--kind", action="append", metavar="K", help="only jobs of this kind; repeatable")
    parser.add_argument(
        "--wait",
        nargs="?",
        type=_wait,
        default=0,
        metavar="S",
        help="how long to wait for a job, even one not enqueued yet; without S, until you get a job or every job in "
        "the queue is done or dead (default: 0)",
    )
    add_claim_options(parser)


def _wait(text: str) -> float:
    try:
        return seconds(text)
    except argparse.ArgumentTypeError as problem:
        raise argparse.ArgumentTypeError(
            f"{problem}; to wait without a duration, put the queue first: QUEUE --wait"
        ) from None


def run(arguments: Arguments, context: Context) -> int:
    return run_claim(arguments, context, partial(_claim, arguments, context.console))


def _claim(arguments: Arguments, console: Console, store: "OctoStore", owner: str, pid: int | None) -> ClaimReply:
    def ask(wait: float, *, until_done: bool = False) -> ClaimReply:
        return store.claim_next(
            arguments.queue,
            kinds=arguments.kind,
            owner=owner,
            metadata=arguments.metadata,
            ttl=arguments.ttl,
            wait=wait,
            session_id=arguments.session,
            request_id=arguments.request_id,
            max_silence=max_silence_for_store(arguments),
            until_done=until_done,
            pid=pid,
        )

    check_range("wait", arguments.wait or 0, 0, WAIT_MAX_SECONDS, " seconds")
    reply = ask(0)
    if reply.status != "empty" or arguments.wait == 0 or (arguments.wait is None and reply.all_done):
        return reply
    if reply.queue_status is not None and not console.is_json:
        console.print_message(f"waiting: {queue_in_words(reply.queue_status)}")
    if arguments.wait is not None:
        return ask(arguments.wait)
    while reply.status == "empty" and not reply.all_done:
        reply = ask(WAIT_MAX_SECONDS, until_done=True)
    return reply
