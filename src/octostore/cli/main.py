"""`octostore`: from the words of a command line to an exit code."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from octostore.cli import exits
from octostore.cli.command import BY_NAME, Context
from octostore.cli.console import Console
from octostore.cli.failing import tell_failure, tell_misunderstood, tell_our_fault
from octostore.cli.parser import Misunderstood, asks_for_json, new_parser, parse
from octostore.cli.place import chosen_place
from octostore.core.errors import OctoStoreError


def main(arguments: Sequence[str] | None = None) -> int:
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete  # noqa: PLC0415  # only when a shell asks what could follow

        argcomplete.autocomplete(new_parser())
    _replace_closed_streams()
    try:
        try:
            return _carry_out(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our answers has enough. Python would complain about the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE


def _carry_out(given: Sequence[str]) -> int:
    console = Console(is_json=asks_for_json(given))
    if not given:
        new_parser(()).print_help()
        return exits.BAD_INPUT
    try:
        parsed = parse(given)
        context = Context(console, chosen_place(getattr(parsed, "url", None)))
        try:
            return BY_NAME[parsed.command].module.run(parsed, context)
        except OctoStoreError as error:
            return tell_failure(error, context)
    except Misunderstood as problem:
        return tell_misunderstood(problem, console)
    except BrokenPipeError:
        raise
    except Exception as fault:  # noqa: BLE001  # the last one who can say so in words
        return exits.INTERRUPTED if _is_after_interrupt(fault) else tell_our_fault(fault, console)


def _is_after_interrupt(fault: BaseException | None) -> bool:
    """Whether it came up while tidying up after Ctrl-C, which can be in the middle of anything."""
    return fault is not None and (isinstance(fault, KeyboardInterrupt) or _is_after_interrupt(fault.__context__))


def _replace_closed_streams() -> None:
    """Whoever has closed one (`>&-`) does not want to read it, and must not get it through the other."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the end
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the end
