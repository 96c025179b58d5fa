"""`octostore`: from the words of a command line to an exit code."""

import os
import sys
from collections.abc import Sequence

from octostore.cli import exits
from octostore.cli.command import BY_NAME, Context
from octostore.cli.console import Console
from octostore.cli.failing import tell_failure, tell_our_fault
from octostore.cli.parser import new_parser, parse
from octostore.cli.place import chosen_place
from octostore.core.errors import OctoStoreError


def main(arguments: Sequence[str] | None = None) -> int:
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete  # noqa: PLC0415  # only when a shell asks what could follow

        argcomplete.autocomplete(new_parser())
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        new_parser(()).print_help()
        return exits.BAD_INPUT
    parsed = parse(given)
    context = Context(Console(is_json=getattr(parsed, "json", False)), chosen_place(getattr(parsed, "url", None)))
    try:
        return BY_NAME[parsed.command].module.run(parsed, context)
    except OctoStoreError as error:
        return tell_failure(error, context)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our answers has enough. Python would complain about the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE
    except Exception as fault:  # noqa: BLE001  # the last one who can say so in words
        return tell_our_fault(fault, context)
