"""The entry point of the `octostore` command."""

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from octostore.cli import exit_codes, startup


def main(arguments: Sequence[str] | None = None) -> int:
    if arguments is None:
        startup.prepare()
    from octostore.cli.console import print_stderr  # noqa: PLC0415  # after `prepare`
    from octostore.cli.dispatch import print_completions, run_command_line  # noqa: PLC0415  # after `prepare`

    if "_ARGCOMPLETE" in os.environ:
        print_completions()
    _replace_closed_streams()
    try:
        try:
            return run_command_line(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
            if arguments is None:
                startup.skip_final_gc()
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        _drop(sys.stdout)
        return exit_codes.BROKEN_PIPE
    except OSError as error:  # the output's: all others have been reported
        _drop(sys.stdout)
        print_stderr(f"octostore: cannot write the output: {error.strerror}")
        return exit_codes.OUTPUT_FAILED
    finally:
        try:
            sys.stderr.flush()
        except OSError:
            _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """Python would complain about unwritten output at exit, and change the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _replace_closed_streams() -> None:
    """Replace a closed stream (`>&-`) by /dev/null, so that its output does not end up in another file."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
