"""`octostore`: where a process of the command line begins and ends."""

import os
import sys
from collections.abc import Sequence

from octostore.cli import exits, starting


def main(arguments: Sequence[str] | None = None) -> int:
    if arguments is None:
        starting.begin()
    from octostore.cli.calling import carry_out, complete  # noqa: PLC0415  # what takes long has begun by now

    if "_ARGCOMPLETE" in os.environ:
        complete()
    _replace_closed_streams()
    try:
        try:
            return carry_out(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
            if arguments is None:
                starting.end()
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our answers has enough. Python would complain about the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE


def _replace_closed_streams() -> None:
    """Whoever has closed one (`>&-`) does not want to read it, and must not get it through the other."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
