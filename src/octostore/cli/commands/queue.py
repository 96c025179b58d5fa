"""Change the settings of a queue. Settings you leave out stay as they are.

While a queue is paused, its jobs cannot be claimed, either in order or by name. Existing claims continue, and jobs can
be enqueued. Resuming the queue wakes waiting workers.
"""

import argparse

from msgspec import UNSET

from octostore.cli.completers import queue_names
from octostore.cli.job_names import empty_queue_hint
from octostore.cli.options import positive_integer
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.core.errors import InvalidInput
from octostore.core.queue_words import pause_in_words
from octostore.core.replies import QueueView

EXAMPLES = [
    "octostore queue set builds --pause --reason 'deploying the runners'",
    "octostore queue set builds --resume",
    "octostore queue set deploys --max-claimed 1    # one at a time",
    "octostore queue set deploys --max-claimed none",
]
NO_LIMIT = "none"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "octostore queue set QUEUE [--pause | --resume] [--max-claimed N] [--reason TEXT]"
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", prog=parser.prog)
    settings = actions.add_parser(
        "set", help="pause, resume or limit a queue", description="Pause, resume or limit a queue."
    )
    set_completer(settings.add_argument("queue", metavar="QUEUE", help="queue name"), queue_names)
    settings.add_argument(
        "--max-claimed",
        type=_limit,
        default=UNSET,
        metavar="N",
        help="maximum number of jobs claimed at once, or `none` for no limit",
    )
    pause = settings.add_mutually_exclusive_group()
    pause.add_argument("--pause", dest="paused", action="store_true", default=None, help="hand out no more jobs")
    pause.add_argument("--resume", dest="paused", action="store_false", default=None, help="hand out jobs again")
    settings.add_argument("--reason", metavar="TEXT", help="why; shown in the log and to workers that ask for a job")


def _limit(text: str) -> int | None:
    if text == NO_LIMIT:
        return None
    try:
        return positive_integer(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a limit; use a whole number of at least 1, or {NO_LIMIT}"
        ) from None


def run(arguments: Arguments, context: Context) -> None:
    if arguments.max_claimed is UNSET and arguments.paused is None:
        raise InvalidInput("queue set", "needs --pause, --resume or --max-claimed")
    with context.address.open() as store:
        view = store.set_queue(
            arguments.queue, max_claimed=arguments.max_claimed, paused=arguments.paused, reason=arguments.reason
        )
        new = None if context.console.is_json else empty_queue_hint(store, arguments.queue)
    context.console.print_result(view, _summary(view))
    if new is not None:
        context.console.print_message(new)


def _summary(view: QueueView) -> str:
    limit = "" if view.max_claimed is None else f", at most {view.max_claimed:,} claimed at once"
    state = "open" if view.pause is None else pause_in_words(view.pause)
    return f"queue {view.queue} is {state}{limit}"
