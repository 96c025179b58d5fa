"""Set up an agent's client for this folder, so that its agents claim a job before they work on it.

It writes the MCP server, the hooks, a skill and a few lines for AGENTS.md into the client's own files. Everything else
in them stays as it is, and --remove restores them once no other client needs the lines in AGENTS.md. Your own MCP
server named octostore is left alone. Nothing is written if one of the files cannot be edited safely. Running it again
updates an earlier setup. To set up another client yourself, paste what --print shows.
"""

import argparse
import shutil
import sys
from pathlib import Path

from octostore.agents.setup.clients import CLIENTS, generic_parts
from octostore.agents.setup.parts import Part
from octostore.agents.setup.plan import CannotEdit, Change, Scope, removed, set_up, status_of
from octostore.cli import exit_codes
from octostore.cli.console import Console, print_stderr
from octostore.cli.parser import PROGRAM
from octostore.cli.subcommands import Arguments, Context, set_completer
from octostore.cli.words import join_words
from octostore.core.errors import InvalidInput

EXAMPLES = [
    "octostore setup claude    # in the folder of your project",
    "octostore setup codex --global    # for all your projects",
    "octostore setup cursor --check || octostore setup cursor",
    "octostore setup claude --remove",
    "octostore setup --print    # what to paste into the settings of another client",
]
COLOURS = {"created": "green", "changed": "green", "deleted": "yellow", "current": "green", "outdated": "yellow"}


def configure(parser: argparse.ArgumentParser) -> None:
    known = parser.add_argument(
        "client", metavar="CLIENT", nargs="?", help=f"{', '.join(CLIENTS)}, or any other client with --print"
    )
    set_completer(known, lambda **_: list(CLIENTS))
    parser.add_argument(
        "--global",
        dest="is_global",
        action="store_true",
        help="set up your home folder, for all your projects, instead of this folder",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--print", action="store_true", help="only print what belongs in which file")
    how.add_argument(
        "--check", action="store_true", help="only report whether the client is set up and up to date; exit 0 if so"
    )
    how.add_argument(
        "--remove",
        action="store_true",
        help="remove what setup added, but keep instructions needed by another client that is set up here",
    )


def run(arguments: Arguments, context: Context) -> int:
    if context.address.source == "--url":
        # The MCP server would use this store, but hooks and commands another one.
        raise InvalidInput("--url", "is not saved in the client's settings; set OCTOSTORE_URL where your agents start")
    if arguments.client not in CLIENTS:
        if not arguments.print:
            raise InvalidInput(
                "CLIENT", f"must be {join_words(CLIENTS, 'or')}; for another one, use `octostore setup --print`"
            )
        return _print(generic_parts(), context.console)
    scope = Scope(CLIENTS[arguments.client], _base(arguments.is_global), arguments.is_global)
    if arguments.print:
        return _print(scope.parts(), context.console)
    try:
        if arguments.check:
            return _check(scope, context.console)
        changes = removed(scope) if arguments.remove else set_up(scope)
        if not arguments.remove and shutil.which(PROGRAM) is None:
            context.console.print_message(
                f"{PROGRAM} is not on your PATH, so clients will not find it; add {Path(sys.argv[0]).parent.absolute()}"
            )
    except CannotEdit as error:
        _print_what_to_edit(error, scope, context.console, "to remove from" if arguments.remove else "belongs in")
        raise
    return _print_changes(scope, changes, context.console)


def _base(is_global: bool) -> Path:
    return Path.home() if is_global else Path.cwd()


def _print(parts: list[Part], console: Console) -> int:
    lines = [line for part in parts for line in (f"# {part.path}: {part.what}", *part.paste().splitlines(), "")]
    files = [{"path": part.path, "what": part.what, "text": part.paste()} for part in parts]
    console.print_result({"files": files}, *lines[:-1])
    return exit_codes.SUCCESS


def _check(scope: Scope, console: Console) -> int:
    status, found = status_of(scope)
    files = [_file(change, one, scope) for change, one in found]
    headline = {
        "current": f"{scope.client.title} is set up",
        "outdated": f"{scope.client.title}'s setup is incomplete or outdated; run: {_command(scope)}",
        "absent": f"{scope.client.title} is not set up; run: {_command(scope)}",
    }[status]
    lines = (_line(file, console) for file in files)
    console.print_result({"client": scope.client.name, "status": status, "files": files}, headline, *lines)
    return exit_codes.SUCCESS if status == "current" else exit_codes.BAD_INPUT


def _print_changes(scope: Scope, changes: list[Change], console: Console) -> int:
    relevant = [change for change in changes if change.before is not None or change.after is not None]
    files = [_file(one, one.done, scope) for one in relevant]
    lines = [_line(file, console) for file in files]
    if any(change.done == "created" for change in changes):
        client = scope.client
        lines.append(f"next: {client.global_next_step if scope.is_global else client.next_step}")
    console.print_result({"client": scope.client.name, "files": files}, *lines or ["there is nothing to remove"])
    return exit_codes.SUCCESS


def _file(change: Change, status: str, scope: Scope) -> dict[str, str | None]:
    return {"path": _shown(change.path, scope), "what": change.what, "status": status, "note": change.note}


def _line(file: dict[str, str | None], console: Console) -> str:
    status, note = file["status"] or "", f"; {file['note']}" if file["note"] else ""
    return f"{console.style(f'{status:<10}', COLOURS.get(status, 'dim'))}{file['path']} ({file['what']}{note})"


def _shown(path: Path, scope: Scope) -> str:
    if not path.is_relative_to(scope.base):
        return str(path)
    return ("~/" if scope.is_global else "") + str(path.relative_to(scope.base))


def _command(scope: Scope) -> str:
    return f"octostore setup {scope.client.name}" + (" --global" if scope.is_global else "")


def _print_what_to_edit(error: CannotEdit, scope: Scope, console: Console, where: str) -> None:
    for problem in error.problems:
        console.print_message(f"what {where} {_shown(problem.path, scope)}:")
        print_stderr(*problem.part.paste().splitlines())  # to be copied, so without our name
