"""What `run` and `work` have in common: how a command is owned, stopped and spoken of."""

import argparse
import signal
from typing import get_args

from octostore.cli.command import Arguments
from octostore.cli.console import Console
from octostore.cli.options import seconds, signal_number
from octostore.core.errors import InvalidInput
from octostore.core.limits import TTL_DEFAULT_SECONDS
from octostore.supervise.command import OnSilence, Terms
from octostore.supervise.telling import Tell

GRACE_DEFAULT = 10


def add_command_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(takes_command=True)
    add = parser.add_argument
    add("--owner", metavar="O", help="who you are, for people (OCTOSTORE_OWNER, else host:pid)")
    add(
        "--ttl",
        type=seconds,
        default=TTL_DEFAULT_SECONDS,
        metavar="S",
        help=f"how soon another can take over when this machine disappears ({TTL_DEFAULT_SECONDS})",
    )
    add("--max-run", type=seconds, metavar="S", help="stop the command after this time; that is a failure")
    add(
        "--max-silence",
        type=seconds,
        metavar="S",
        help="after how long without `octostore progress` or `checkpoint` the command is shown as stuck (never)",
    )
    add(
        "--on-silence",
        choices=get_args(OnSilence),
        default="report",
        help="then: only report it, or stop the command, which is a failure (report)",
    )
    add("--stop-signal", type=signal_number, default=signal.SIGTERM, metavar="SIG", help="how it is stopped (TERM)")
    add(
        "--stop-grace",
        type=seconds,
        default=GRACE_DEFAULT,
        metavar="S",
        help=f"after the stop signal, how long until it is killed ({GRACE_DEFAULT}; a tenth of the TTL at most when a "
        "lease runs out)",
    )
    add(
        "--stop-rest", action="store_true", help="stop what it leaves running, instead of holding the job until it ends"
    )
    add("--no-stderr", action="store_true", help="keep nothing of its stderr as the error of a failure")
    add("--quiet", action="store_true", help="say nothing unless something is wrong")


def terms_of(arguments: Arguments) -> Terms:
    if arguments.on_silence == "stop" and arguments.max_silence is None:
        raise InvalidInput("--on-silence", "stop needs --max-silence: without it, a command may be silent for ever")
    return Terms(
        stop_grace=arguments.stop_grace,
        max_run=arguments.max_run,
        stop_rest=arguments.stop_rest,
        on_silence=arguments.on_silence,
    )


def tell_of(arguments: Arguments, console: Console) -> Tell:
    def tell(text: str, *, is_warning: bool = False) -> None:
        if is_warning or not arguments.quiet:
            console.remark(text)

    return tell
