"""Options that `run` and `work` share."""

import argparse
import signal
from contextlib import suppress
from typing import get_args

from octostore.cli.console import Console
from octostore.cli.options import seconds, signal_number
from octostore.cli.subcommands import Arguments
from octostore.core.errors import InvalidInput
from octostore.core.limits import TTL_DEFAULT_SECONDS, check_max_run
from octostore.supervise.child_command import OnSilence, StopPolicy
from octostore.supervise.notify import Notify

GRACE_DEFAULT = 10


def add_command_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(takes_command=True)
    add = parser.add_argument
    add("--owner", metavar="O", help="your name, as others see it (default: OCTOSTORE_OWNER, else host:pid)")
    add(
        "--ttl",
        type=seconds,
        default=TTL_DEFAULT_SECONDS,
        metavar="S",
        help=f"how long until others can take over if this machine disappears (default: {TTL_DEFAULT_SECONDS})",
    )
    add("--max-run", type=seconds, metavar="S", help="stop the command after this long, and count that as a failure")
    add(
        "--max-silence",
        type=seconds,
        metavar="S",
        help="show the command as stuck after this long without `octostore progress` or `checkpoint` (default: never)",
    )
    add(
        "--on-silence",
        choices=get_args(OnSilence),
        default="report",
        help="if the command is stuck: report it, or stop it and count that as a failure (default: report)",
    )
    add(
        "--stop-signal",
        type=signal_number,
        default=signal.SIGTERM,
        metavar="SIG",
        help="signal that stops the command (default: TERM)",
    )
    add(
        "--stop-grace",
        type=seconds,
        default=GRACE_DEFAULT,
        metavar="S",
        help="time from the stop signal to KILL, at most a tenth of the TTL if the lease is about to expire; does not "
        f"apply to a signal that `run` gets and passes on (default: {GRACE_DEFAULT})",
    )
    add(
        "--stop-rest",
        action="store_true",
        help="stop processes that the command leaves running, instead of holding the job until they end",
    )
    add("--no-stderr", action="store_true", help="do not save the end of stderr as the job's error")
    add("--quiet", action="store_true", help="print nothing unless something is wrong")


def stop_policy(arguments: Arguments) -> StopPolicy:
    if arguments.on_silence == "stop" and arguments.max_silence is None:
        raise InvalidInput("--on-silence", "stop needs --max-silence, which says how long a command may be silent")
    if arguments.max_run is not None:
        check_max_run(arguments.max_run)
    return StopPolicy(
        stop_grace=arguments.stop_grace,
        max_run=arguments.max_run,
        stop_leftovers=arguments.stop_rest,
        on_silence=arguments.on_silence,
    )


def notifier(arguments: Arguments, console: Console) -> Notify:
    def notify(text: str, *, is_warning: bool = False) -> None:
        if is_warning or not arguments.quiet:
            with suppress(BrokenPipeError):  # it must not end the command, nor fail its job
                console.print_message(text)

    return notify
