"""From a command line to an exit code. The code that reports failures is imported only if something fails."""

import sys
from collections.abc import Sequence
from typing import Any

from octostore.cli import exit_codes, startup
from octostore.cli.activity import record_activity
from octostore.cli.console import Console, OutputFailed
from octostore.cli.parser import UsageError, new_parser, parse, wants_json
from octostore.cli.store_address import resolve_store
from octostore.cli.subcommands import BY_NAME, Context
from octostore.core.errors import OctoStoreError

GENERATED = "job-0"
"""The start of every generated name. An argument without it cannot be a truncated generated name."""


def print_completions() -> None:
    """Answer a shell that asks for completions."""
    import argcomplete  # noqa: PLC0415
    from argcomplete.packages import _shlex  # noqa: PLC0415

    class Words(_shlex.shlex):
        """Does not treat `#` inside a word as a comment: `acme/shop#12` is a job name."""

        def __init__(self, *line: Any, **options: Any) -> None:
            super().__init__(*line, **options)  # type: ignore[no-untyped-call]
            self.commenters = ""

    _shlex.shlex = Words  # type: ignore[misc]
    argcomplete.autocomplete(new_parser())


def run_command_line(given: Sequence[str]) -> int:
    console = Console(is_json=wants_json(given))
    if not given:
        new_parser(()).print_help()
        return exit_codes.BAD_INPUT
    try:
        parsed = parse(given)
        startup.enable_gc()
        context = Context(console, resolve_store(getattr(parsed, "url", None), is_interactive=sys.stderr.isatty()))
        record_activity(parsed, context.address)
        try:
            if any(GENERATED in word for word in given):
                from octostore.cli.job_names import expand_names  # noqa: PLC0415

                expand_names(parsed, context)
            return BY_NAME[parsed.command].module.run(parsed, context) or exit_codes.SUCCESS
        except OctoStoreError as error:
            from octostore.cli.failures import print_failure  # noqa: PLC0415

            return print_failure(error, context)
        finally:
            record_activity(parsed, context.address)  # the wait does not count as silence
    except UsageError as problem:
        from octostore.cli.failures import print_usage_error  # noqa: PLC0415

        return print_usage_error(problem, console)
    except (BrokenPipeError, OutputFailed):
        raise
    except Exception as fault:  # noqa: BLE001  # the last chance to report it readably
        from octostore.cli.failures import print_internal_error  # noqa: PLC0415

        return exit_codes.INTERRUPTED if _is_after_interrupt(fault) else print_internal_error(fault, console)


def _is_after_interrupt(fault: BaseException | None) -> bool:
    """Whether it happened while cleaning up after Ctrl-C, which can interrupt anything."""
    return fault is not None and (isinstance(fault, KeyboardInterrupt) or _is_after_interrupt(fault.__context__))
