"""The reference of the command line, from its parsers."""

import argparse
from collections.abc import Iterator
from itertools import groupby

from docs.references.markdown import FOLDER, page, table
from octostore.cli import exit_codes
from octostore.cli.parser import DESCRIPTION, PROGRAM, Parser, configure, value_placeholder
from octostore.cli.subcommands import SUBCOMMANDS, Subcommand

PATH = FOLDER / "cli.md"

OUTPUT = """\
Results go to stdout, messages to stderr, and no command ever prompts. `--json` prints one document with the fields of
[the HTTP responses](http.md). Commands that follow or export events, or take several jobs, print one document per line.
An error is a document with `error` and `code`; the [exit code](#exit-codes) says what kind of error it is.

JOB is the exact name of a job, or the start of a generated name (`job-` and at least 8 hexadecimal digits) if only one
job matches. `claim`, `run` and `enqueue` never create a job from a truncated generated name. If nobody has ever claimed
or enqueued a name, the command says so and suggests the closest existing names. Put `--` before a name that begins with
`-`, after all options.

Durations (`S`) are seconds, or `2m`, `1h30m`, `90d`. Pass JSON as an argument, in a file (`@FILE`) or on stdin (`-`).
"""

OTHER_EXITS = {
    exit_codes.INTERRUPTED: "interrupted by Ctrl-C",
    exit_codes.BROKEN_PIPE: "the reader of the output is gone, as in `| head -1`",
}


def reference() -> str:
    """The same wherever and whenever it is made."""
    return page("The command line", "the parsers", _lines())


def _lines() -> Iterator[str]:
    options = {option_of(action): meaning_of(action) for action in _common_arguments()}
    yield from (DESCRIPTION, f"`{PROGRAM} COMMAND --help` shows the same text. Every command takes:", "")
    yield from (*table(["option", "meaning"], options.items()), "", *OUTPUT.splitlines(), "")
    for group, commands in groupby(SUBCOMMANDS, key=lambda command: command.group):
        yield f"- {group}: " + ", ".join(f"[{command.name}](#{_anchor(command.name)})" for command in commands)
    yield "- [Exit codes](#exit-codes), [environment variables](settings.md)"
    for group, commands in groupby(SUBCOMMANDS, key=lambda command: command.group):
        yield from ("", f"## {group}")
        for command in commands:
            yield from _about(command)
    yield from ("", "## Exit codes", "")
    meanings = {**exit_codes.MEANINGS, **OTHER_EXITS}
    yield from table(["exit code", "meaning"], ((str(number), meaning) for number, meaning in meanings.items()))


def _about(command: Subcommand) -> Iterator[str]:
    parser = Parser(prog=f"{PROGRAM} {command.name}")
    configure(parser, command)
    yield from ("", f"### {PROGRAM} {command.name}", "", parser.description or "")
    yield from _usage_of(parser)
    for nested in parser.nested.values():
        yield from ("", nested.description or "", *_usage_of(nested))
    yield from ("", "```sh", *command.module.EXAMPLES, "```")


def _usage_of(parser: Parser) -> Iterator[str]:
    yield from ("", "```text", parser.short_usage, "```")
    common = {action.dest for action in _common_arguments()}
    arguments = [one for one in parser.all_arguments if one.dest not in common and not isinstance(one.choices, dict)]
    if arguments:
        yield from (
            "",
            *table(["argument", "meaning"], ((option_of(action), meaning_of(action)) for action in arguments)),
        )


def _common_arguments() -> list[argparse.Action]:
    return Parser(prog=PROGRAM).all_arguments


def option_of(action: argparse.Action) -> str:
    name = ", ".join(action.option_strings)
    takes_value = action.nargs != 0
    return f"`{' '.join(part for part in (name, value_placeholder(action) if takes_value else '') if part)}`"


def meaning_of(action: argparse.Action) -> str:
    return (action.help or "") % vars(action)


def _anchor(name: str) -> str:
    return f"{PROGRAM}-{name}"
