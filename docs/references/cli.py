"""The reference of the command line, from its parsers: `python -m docs.references.cli` writes it anew."""

import argparse
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from octostore.cli import exits
from octostore.cli.command import COMMANDS, Command
from octostore.cli.commands.serve import TOKENS_FILE_VARIABLE
from octostore.cli.failing import DEBUG_VARIABLE
from octostore.cli.options import LEASE_VARIABLE
from octostore.cli.parser import DESCRIPTION, PROGRAM, Parser, configure, shown_value
from octostore.client.http.server_url import CLEAR_TEXT_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from octostore.client.owner import OWNER_VARIABLE
from octostore.stores.opening import HOME_VARIABLE, URL_VARIABLE
from octostore.supervise.report import (
    CHECKPOINT_VARIABLE,
    FENCING_VARIABLE,
    JOB_VARIABLE,
    PREVIOUS_VARIABLE,
    SOCKET_VARIABLE,
)

PATH = Path(__file__).parents[1] / "reference" / "cli.md"
REFRESH = "python -m docs.references.cli"

ANSWERS = """\
Answers go to stdout, remarks to stderr, and nothing ever prompts. `--json` prints one document with the fields of [the
HTTP answers](../how-to/server.md), or one per line if a command follows, exports, or takes several jobs. An error is a
document with `error` and `code`; the [exit code](#exit-codes) says what kind of error it is.

JOB is the exact name of a job, or the start of a generated name (`job-` and at least 8 digits) that matches one job.
`claim`, `run` and `enqueue` never create a job from a truncated generated name. If nobody has ever claimed or enqueued
a name, the command says so and suggests the closest existing names.

Durations (`S`) are seconds, or `2m`, `1h30m`, `90d`. Give JSON as an argument, from a file (`@FILE`), or on stdin
(`-`).
"""

ENVIRONMENT = {
    URL_VARIABLE: "the store: `sqlite:///FILE`, `postgresql://…`, or `http(s)://` for a server; `--url` takes "
    "precedence",
    HOME_VARIABLE: "the folder for your own file and for a server's first token (`~/.local/share/octostore`, or under "
    "`XDG_DATA_HOME`)",
    TOKEN_VARIABLE: "the token for a server",
    TOKEN_FILE_VARIABLE: "a file that contains the token and that only you can read",
    CLEAR_TEXT_VARIABLE: "`1` allows sending the token over plain HTTP to another machine; for trusted networks only",
    OWNER_VARIABLE: "your name, as others see it (host and process id)",
    LEASE_VARIABLE: "the lease id for `heartbeat`, `progress`, `checkpoint`, `release`, `hand-over` and "
    "`sessions --close`",
    TOKENS_FILE_VARIABLE: "file of preconfigured tokens for `serve`; `--tokens-file` takes precedence",
    DEBUG_VARIABLE: "`1` prints a traceback for internal errors",
    "SSL_CERT_FILE": "for `https://`: a file with the CA certificates to trust, for example your own CA's",
    "NO_COLOR": "if set, no colours, even on a terminal",
}
WITHIN = {
    JOB_VARIABLE: "its job",
    FENCING_VARIABLE: "pass it to whatever the command writes to, [so that late writes are "
    "refused](../how-to/fencing.md); `heartbeat` and `release` send it automatically",
    "OCTOSTORE_ATTEMPT": "1, or more if earlier owners failed or disappeared",
    CHECKPOINT_VARIABLE: "file with the last checkpoint; it does not exist if there is none",
    PREVIOUS_VARIABLE: "JSON about the last attempt: `owner`, `attempt`, `how`, `claimed_at`, `ended_at`, `note`, "
    "`error` and `reason`; empty if nobody has had the job",
    "OCTOSTORE_KIND": "with `work`: the kind of the job",
    "OCTOSTORE_QUEUE": "with `work`: its queue",
    SOCKET_VARIABLE: "how `progress` and `checkpoint` reach `run` or `work`",
}
OTHER_EXITS = {
    exits.INTERRUPTED: "interrupted by Ctrl-C",
    exits.BROKEN_PIPE: "the reader went away, as in `| head -1`",
}


def reference() -> str:
    """The same wherever and whenever it is made."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    options = {_option(action): _meaning(action) for action in _common_arguments()}
    yield from (f"<!-- Made from the parsers by `{REFRESH}`: change those, and run it. -->", "# The command line", "")
    yield from (DESCRIPTION, f"`{PROGRAM} COMMAND --help` shows the same text. Every command takes:", "")
    yield from (*_table("option", options), "", *ANSWERS.splitlines(), "")
    for group, commands in groupby(COMMANDS, key=lambda command: command.group):
        yield f"- {group}: " + ", ".join(f"[{command.name}](#{_anchor(command.name)})" for command in commands)
    yield "- [Exit codes](#exit-codes), [environment](#environment)"
    for group, commands in groupby(COMMANDS, key=lambda command: command.group):
        yield from ("", f"## {group}")
        for command in commands:
            yield from _about(command)
    yield from ("", "## Exit codes", "")
    meanings = {**exits.MEANINGS, **OTHER_EXITS}
    yield from _table("exit code", {str(code): meaning for code, meaning in meanings.items()})
    yield from (
        "",
        "## Environment",
        "",
        *_table("variable", {f"`{name}`": text for name, text in ENVIRONMENT.items()}),
    )
    yield from ("", "A command that `run` or `work` has started finds:", "")
    yield from _table("variable", {f"`{name}`": text for name, text in WITHIN.items()})


def _about(command: Command) -> Iterator[str]:
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
        yield from ("", *_table("argument", {_option(action): _meaning(action) for action in arguments}))


def _common_arguments() -> list[argparse.Action]:
    return Parser(prog=PROGRAM).all_arguments


def _option(action: argparse.Action) -> str:
    name = ", ".join(action.option_strings)
    takes_value = action.nargs != 0
    return f"`{' '.join(part for part in (name, shown_value(action) if takes_value else '') if part)}`"


def _meaning(action: argparse.Action) -> str:
    return (action.help or "") % vars(action)


def _table(title: str, rows: dict[str, str]) -> list[str]:
    def line(first: str, second: str) -> str:
        return f"| {first.replace('|', chr(92) + '|')} | {second.replace('|', chr(92) + '|')} |"

    return [line(title, "meaning"), "|---|---|", *(line(name, text) for name, text in rows.items())]


def _anchor(name: str) -> str:
    return f"{PROGRAM}-{name}"


if __name__ == "__main__":
    PATH.write_text(reference(), encoding="utf-8")
