"""Parse command lines, and format the help."""

import argparse
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NoReturn

from octostore._version import __version__
from octostore.cli.exit_codes import MEANINGS
from octostore.cli.subcommands import BY_NAME, SUBCOMMANDS, Subcommand

PROGRAM = "octostore"
DESCRIPTION = "One owner per job, ownership that anyone can see, and automatic recovery when a worker disappears."
WIDEST = 120
EXAMPLES_TITLE = "examples:"
DURATION = "S"
"""How the help shows options that take a duration."""
CLOSE = 0.75
"""How similar a mistyped command must be to be suggested."""
_SYNONYMS = {
    "acquire": "claim",
    "add": "enqueue",
    "done": "release",
    "get": "owner",
    "history": "events",
    "info": "owner",
    "jobs": "list",
    "kill": "stop",
    "lock": "claim",
    "log": "events",
    "logs": "events",
    "ls": "list",
    "pop": "next",
    "ps": "list",
    "push": "enqueue",
    "renew": "heartbeat",
    "retry": "requeue",
    "rm": "cancel",
    "server": "serve",
    "show": "owner",
    "start": "serve",
    "status": "owner",
    "submit": "enqueue",
    "tokens": "token",
    "unlock": "release",
    "whois": "owner",
    "worker": "work",
}
"""What other tools call a command, and what it is called here."""


class UsageError(Exception):
    """A command line that cannot be parsed. `usage` is the correct form; `program --help` explains it."""

    def __init__(self, problem: str, usage: str, program: str) -> None:
        super().__init__(problem)
        self.usage = usage
        self.program = program


class Formatter(argparse.HelpFormatter):
    """Wraps paragraphs to the width of the terminal; leaves examples alone."""

    def __init__(self, prog: str) -> None:
        import shutil  # noqa: PLC0415  # only for --help

        super().__init__(prog, width=min(shutil.get_terminal_size().columns - 2, WIDEST))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(EXAMPLES_TITLE):
            return text
        return "\n\n".join(
            "\n".join(f"{indent}{line}" for line in self._split_lines(part, width)) for part in text.split("\n\n")
        )

    def _split_lines(self, text: str, width: int) -> list[str]:
        from textwrap import wrap  # noqa: PLC0415  # only for --help

        unbroken = " ".join(text.split()).replace("(default: ", "(default:\N{NO-BREAK SPACE}")
        lines = wrap(unbroken, width, break_on_hyphens=False)  # options stay whole
        return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


class Parser(argparse.ArgumentParser):
    """The parser of a subcommand, with the options that all of them share."""

    def __init__(self, **options: Any) -> None:
        # argparse creates a formatter for every option added; the one for the help is expensive.
        plain = partial(argparse.HelpFormatter, width=WIDEST)
        super().__init__(**{"formatter_class": plain, "allow_abbrev": False, **options})
        group = self.add_argument_group("for every command")
        group.add_argument(
            "--url",
            default=argparse.SUPPRESS,
            help="the store: sqlite:///FILE, postgresql://…, or http(s):// for a server (default: OCTOSTORE_URL, else "
            "your own file)",
        )
        group.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")

    def format_usage(self) -> str:
        return f"usage: {self.short_usage}\n"

    def format_help(self) -> str:
        self.usage = self.short_usage
        self.formatter_class = Formatter
        return super().format_help()

    @property
    def short_usage(self) -> str:
        if self.usage is not None:
            return self.usage
        return " ".join([self.prog, *map(value_placeholder, self.positionals), "[options]"])

    @property
    def all_arguments(self) -> list[argparse.Action]:
        return list(self._actions)

    @property
    def positionals(self) -> list[argparse.Action]:
        return self._get_positional_actions()

    @property
    def options(self) -> list[str]:
        return list(self._option_string_actions)

    @property
    def nested(self) -> dict[str, "Parser"]:
        """The parsers of its subcommands, by name."""
        found = [action.choices for action in self._actions if isinstance(action.choices, dict)]
        return found[0] if found else {}

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage(), self.prog)


def value_placeholder(action: argparse.Action) -> str:
    """How usage and help show an argument's value."""
    name = str(action.metavar or "|".join(action.choices or [action.dest.upper()]))
    return {"?": f"[{name}]", "+": f"{name}…", "*": f"[{name}…]"}.get(str(action.nargs), name)


def new_parser(commands: Iterable[Subcommand] = SUBCOMMANDS) -> Parser:
    """A parser for these subcommands; running one does not need the others."""
    parser = _TopParser(prog=PROGRAM, usage=f"{PROGRAM} COMMAND …")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    subparsers = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=Parser, prog=PROGRAM
    )
    for command in commands:
        configure(subparsers.add_parser(command.name, help=command.summary), command)
    return parser


def configure(parser: Parser, command: Subcommand) -> None:
    """Add the description, examples and arguments of this subcommand."""
    module = command.module
    parser.description = (module.__doc__ or "").strip()
    parser.epilog = "\n".join([EXAMPLES_TITLE, *(f"  {line}" for line in module.EXAMPLES)])
    module.configure(parser)
    if any(action.metavar == DURATION for action in parser.all_arguments):
        parser.description += f"\n\n{DURATION} is a duration: seconds, or 2m, 1h30m, 1d."


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Options may come before or after the subcommand, and end at `--`. Raises `UsageError`."""
    own, command_line = _split(arguments)
    word = _command_of(own)
    named = BY_NAME.get(word or "")
    parser = new_parser(() if named is None else [named])
    if word is not None and named is None:
        parser.error(f"unknown command {word!r}{_did_you_mean(word, BY_NAME)}")
    takes_command = named is not None and parser.nested[named.name].get_default("takes_command") is True
    names: list[str] = []
    if command_line and named is not None and not takes_command:
        own, names, command_line = [*own, "--", *command_line], command_line, []  # a job's name may begin with a hyphen
    parsed, unknown = parser.parse_known_args(own)
    subparser = parser.nested[parsed.command]
    if takes_command and not command_line and not unknown:
        subparser.error(f"no command given; use `{subparser.short_usage}`")
    if unknown:
        takes_command = takes_command and not command_line
        subparser.error(_explain_unknown(unknown, names, subparser, parsed, takes_command=takes_command))
    parsed.command_line = command_line
    return parsed


def _explain_unknown(
    unknown: Sequence[str],
    names: Sequence[str],
    subparser: Parser,
    parsed: argparse.Namespace,
    *,
    takes_command: bool,
) -> str:
    """`names` are the words after `--`, where nothing is an option."""
    first, *others = [word for word in unknown if word != "--"] or unknown
    if first.startswith("-") and first not in names:
        option = first.partition("=")[0]
        return f"unknown option {option}{_did_you_mean(option, subparser.options)}"
    if not takes_command:
        return f"unexpected argument {first!r}" + ("; put options before `--`" if first.startswith("-") else "")
    from shlex import quote  # noqa: PLC0415  # only for mistakes

    # As with `flock FILE COMMAND`.
    names = [quote(str(getattr(parsed, action.dest))) for action in subparser.positionals]
    line = " ".join([subparser.prog, *names, "--", quote(first), *("…" for _ in others[:1])])
    return f"put `--` before the command: `{line}`"


def wants_json(arguments: Sequence[str]) -> bool:
    """Works for command lines that cannot be parsed, too."""
    return "--json" in _split(arguments)[0]


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split at the first `--`, which starts another program's command line."""
    if "--" not in arguments:
        return list(arguments), []
    position = list(arguments).index("--")
    return list(arguments[:position]), list(arguments[position + 1 :])


def _command_of(arguments: Sequence[str]) -> str | None:
    words = iter(arguments)
    for word in words:
        if word == "--url":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  # only for typos

    meant = [_SYNONYMS[word]] if word in _SYNONYMS else get_close_matches(word, known, 1, CLOSE)
    return "".join(f"; did you mean {name}?" for name in meant)


class _TopParser(Parser):
    """Its help lists the subcommands in groups."""

    def format_help(self) -> str:
        from octostore.cli.environment import VARIABLES  # noqa: PLC0415  # only for those who read help

        lines = [f"usage: {self.short_usage}", "", DESCRIPTION, ""]
        for group, commands in groupby(SUBCOMMANDS, key=lambda command: command.group):
            lines += [f"{group}:", *(f"  {command.name:<14}{command.summary}" for command in commands), ""]
        lines += ["exit codes:", *(f"  {code:<4}{meaning.replace('`', '')}" for code, meaning in MEANINGS.items()), ""]
        lines += ["environment:", *(f"  {name:<29}{meaning}" for name, meaning in VARIABLES.items()), ""]
        lines += [
            f"All commands take --url and --json. `{PROGRAM} COMMAND --help` explains a command, with examples.",
            f"New here? Try `{PROGRAM} demo`.",
        ]
        return "\n".join(lines) + "\n"
