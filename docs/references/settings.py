"""The reference of settings, from the table of environment variables and the parser of `octostore serve`."""

import argparse
from collections.abc import Iterator

from docs.references.cli import option_of
from docs.references.markdown import FOLDER, code, page, table
from octostore.cli.environment import INSIDE, VARIABLES
from octostore.cli.parser import Parser, configure
from octostore.cli.subcommands import BY_NAME

PATH = FOLDER / "settings.md"
ABOUT = """\
There is no configuration file. The library, the command line, the server and the MCP server read the same
environment variables; arguments take precedence. Only [`Orchestrator.open()`](python.md#orchestratoropen) has a
variable of its own: `ORCH_DB_PATH`.

## Environment variables
"""
SERVER = """\
## The server

These are the options of `octostore serve`. A limit per principal applies to all tokens of that name together.
"""


def reference() -> str:
    return page("Settings", "the command line", _lines())


def _lines() -> Iterator[str]:
    yield from (*ABOUT.splitlines(), "", *table(["variable", "meaning"], _shown(VARIABLES)))
    yield from ("", "A command that `run` or `work` starts also gets:", "")
    yield from (*table(["variable", "meaning"], _shown(INSIDE)), "", *SERVER.splitlines(), "")
    parser = Parser(prog="octostore serve")
    common = {action.dest for action in parser.all_arguments}
    configure(parser, BY_NAME["serve"])
    rows = (
        (option_of(action), _default(parser, action), (action.help or "").replace(" (default: %(default)s)", ""))
        for action in parser.all_arguments
        if action.dest not in common
    )
    yield from table(["option", "default", "meaning"], rows)


def _shown(variables: dict[str, str]) -> Iterator[tuple[str, str]]:
    return ((code(name), meaning) for name, meaning in variables.items())


def _default(parser: Parser, action: argparse.Action) -> str:
    value = parser.get_default(action.dest)
    return "" if isinstance(value, bool) or value in (None, [], "") else code(value)
