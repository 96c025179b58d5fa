"""From the words of a command line to an exit code. What is said of failures is imported where something fails."""

import sys
from collections.abc import Sequence
from typing import Any

from octostore.cli import exits, starting
from octostore.cli.command import BY_NAME, Context
from octostore.cli.console import Console
from octostore.cli.living import show_life
from octostore.cli.parser import Misunderstood, asks_for_json, new_parser, parse
from octostore.cli.place import chosen_place
from octostore.core.errors import OctoStoreError

GENERATED = "job-0"
"""The start of every generated name. Arguments without it are not checked any further."""


def complete() -> None:
    """What could follow, for a shell that asks."""
    import argcomplete  # noqa: PLC0415
    from argcomplete.packages import _shlex  # noqa: PLC0415

    class Words(_shlex.shlex):
        """Within a word, `#` begins no comment: `acme/shop#12` is the name of a job."""

        def __init__(self, *line: Any, **options: Any) -> None:
            super().__init__(*line, **options)  # type: ignore[no-untyped-call]
            self.commenters = ""

    _shlex.shlex = Words  # type: ignore[misc]
    argcomplete.autocomplete(new_parser())


def carry_out(given: Sequence[str]) -> int:
    console = Console(is_json=asks_for_json(given))
    if not given:
        new_parser(()).print_help()
        return exits.BAD_INPUT
    try:
        parsed = parse(given)
        starting.has_begun()
        context = Context(console, chosen_place(getattr(parsed, "url", None), is_watched=sys.stderr.isatty()))
        show_life(parsed, context.place)
        try:
            if any(GENERATED in word for word in given):
                from octostore.cli.naming import expand_names  # noqa: PLC0415

                expand_names(parsed, context)
            return BY_NAME[parsed.command].module.run(parsed, context) or exits.DID
        except OctoStoreError as error:
            from octostore.cli.failing import tell_failure  # noqa: PLC0415

            return tell_failure(error, context)
        finally:
            show_life(parsed, context.place)  # what it has waited for was no silence
    except Misunderstood as problem:
        from octostore.cli.failing import tell_misunderstood  # noqa: PLC0415

        return tell_misunderstood(problem, console)
    except BrokenPipeError:
        raise
    except Exception as fault:  # noqa: BLE001  # the last one who can say so in words
        from octostore.cli.failing import tell_our_fault  # noqa: PLC0415

        return exits.INTERRUPTED if _is_after_interrupt(fault) else tell_our_fault(fault, console)


def _is_after_interrupt(fault: BaseException | None) -> bool:
    """Whether it came up while tidying up after Ctrl-C, which can be in the middle of anything."""
    return fault is not None and (isinstance(fault, KeyboardInterrupt) or _is_after_interrupt(fault.__context__))
