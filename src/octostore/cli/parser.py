"""Command lines, parsed; and the help that people read."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NoReturn

from octostore._version import __version__
from octostore.cli.command import BY_NAME, COMMANDS, Command
from octostore.cli.exits import BAD_INPUT, MEANINGS

PROGRAM = "octostore"
DESCRIPTION = "One owner per job, ownership that anyone can see, and automatic recovery when a worker disappears."


class Parser(argparse.ArgumentParser):
    """Says what is wrong, where help is, and exits with 64."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(BAD_INPUT, f"{PROGRAM}: {message}\n(`{self.prog} --help` explains)\n")


def new_parser(commands: Iterable[Command] = COMMANDS) -> Parser:
    """Knows all commands by name, and the options of `commands`."""
    parser = _Top(prog=PROGRAM, allow_abbrev=False, add_help=True)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    _add_common(parser)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command", parser_class=Parser)
    known = {command.name for command in commands}
    for command in COMMANDS:
        sub = subparsers.add_parser(
            command.name, help=command.summary, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if command.name in known:
            module = command.module
            sub.description = (module.__doc__ or "").strip()
            sub.epilog = "\n".join(["examples:", *(f"  {line}" for line in module.EXAMPLES)])
            module.configure(sub)
            _add_common(sub)
    return parser


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Options stand before or behind the command. Exits with 64 for what cannot be understood."""
    ours, behind = _split(arguments)
    named = BY_NAME.get(_command_of(ours) or "")
    parser = new_parser(() if named is None else [named])
    parsed = parser.parse_args(ours)
    takes_command = hasattr(parsed, "takes_command")
    if takes_command and not behind:
        parser.error(f"what is to be run is missing: {PROGRAM} {parsed.command} … -- COMMAND")
    if behind and not takes_command:
        parser.error(f"{parsed.command} takes nothing behind --")
    parsed.behind = behind
    return parsed


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """At the first `--`: what is behind it is somebody else's command line."""
    if "--" not in arguments:
        return list(arguments), []
    place = list(arguments).index("--")
    return list(arguments[:place]), list(arguments[place + 1 :])


def _command_of(arguments: Sequence[str]) -> str | None:
    words = iter(arguments)
    for word in words:
        if word == "--url":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _add_common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("for every command")
    group.add_argument(
        "--url",
        default=argparse.SUPPRESS,
        help="the store: sqlite:///FILE, or http(s):// for a server; by default OCTOSTORE_URL, else a file of yours",
    )
    group.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="answer with JSON")


class _Top(Parser):
    """Its help has the commands in groups."""

    def format_help(self) -> str:
        lines = [f"usage: {PROGRAM} COMMAND …", "", DESCRIPTION, ""]
        for group, commands in groupby(COMMANDS, key=lambda command: command.group):
            lines += [f"{group}:", *(f"  {command.name:<14}{command.summary}" for command in commands), ""]
        lines += ["exit codes:", *(f"  {code:<4}{meaning.replace('`', '')}" for code, meaning in MEANINGS.items()), ""]
        lines += [
            "The store is OCTOSTORE_URL: unset, a file of yours; sqlite:///FILE; http(s):// for a server, whose token",
            "is in OCTOSTORE_TOKEN or OCTOSTORE_TOKEN_FILE. All commands take --url and --json.",
            f"`{PROGRAM} COMMAND --help` explains one, with examples. New here? Try `{PROGRAM} demo`.",
        ]
        return "\n".join(lines) + "\n"
