"""Help: every command explains itself, every example can be typed, and the reference says the same."""

import argparse
import io
import re
import shlex
import subprocess
import sys

import pytest
from msgspec import UNSET

from docs.references import cli as reference
from octostore._version import __version__
from octostore.cli import exit_codes
from octostore.cli.environment import INSIDE, VARIABLES
from octostore.cli.parser import Parser, configure, parse
from octostore.cli.subcommands import SUBCOMMANDS, Subcommand
from tests.support.cli import run_cli
from tests.support.processes import ROOT

WIDEST = 120
SHOWN_DEFAULT = re.compile(r" \(default: [^()]+\)$")
SEPARATORS = {"|", "||", "&&", ";", "(", ")", ">"}
COMMANDS_OF_THE_CONTRACT = set(
    re.findall(
        r"\w+",
        "serve claim heartbeat release owner list run enqueue next work events recover sessions dead requeue token "
        "demo doctor mcp",
    )
)
every_command = pytest.mark.parametrize("command", SUBCOMMANDS, ids=lambda command: command.name)


def test_all_commands_of_the_contract_exist() -> None:
    assert {command.name for command in SUBCOMMANDS} >= COMMANDS_OF_THE_CONTRACT


def test_the_help_of_all() -> None:
    done = run_cli("--help")
    assert (done.code, done.err) == (0, "")
    for command in SUBCOMMANDS:
        assert f"  {command.name}" in done.out
        assert command.summary in done.out
    for code in (0, 10, 11, 20, 64, 69, 70, 77):
        assert f"\n  {code:<4}{exit_codes.MEANINGS[code]}".replace("`", "") in done.out
    for name, meaning in VARIABLES.items():
        assert f"\n  {name:<29}{meaning}\n" in done.out
    assert max(map(len, done.out.splitlines())) <= WIDEST
    assert run_cli("-h").out == done.out
    assert run_cli().out == done.out


def test_the_version() -> None:
    done = run_cli("--version")
    assert done == (0, f"octostore {__version__}\n", "")


@every_command
def test_the_help_of_each(command: Subcommand) -> None:
    done = run_cli(command.name, "--help", COLUMNS="200")
    assert (done.code, done.err) == (0, "")
    usage, _, description, *_ = done.out.splitlines()
    assert usage.startswith(f"usage: octostore {command.name}")
    assert description[0].isupper()
    examples = done.out.partition("\nexamples:\n")[2].splitlines()
    assert examples
    assert [line for line in examples if f"octostore {command.name}" not in line] == []
    assert max(map(len, done.out.splitlines())) <= WIDEST
    assert "--json " in done.out
    assert "--url " in done.out


@every_command
def test_no_secret_is_an_argument(command: Subcommand) -> None:
    """Everyone on the machine can read arguments. A lease may come from the environment instead."""
    parser = Parser(prog="octostore")
    configure(parser, command)
    options = {
        name for one in (parser, *parser.nested.values()) for a in one.all_arguments for name in a.option_strings
    }
    assert options.isdisjoint({"--token", "--secret-token", "--password", "--admin-token"})


@every_command
def test_every_argument_is_explained(command: Subcommand) -> None:
    parser = Parser(prog="octostore")
    configure(parser, command)
    for one in (parser, *parser.nested.values()):
        assert one.description
        for action in one.all_arguments:
            assert isinstance(action.choices, dict) or re.search(r"[a-z]{3}", reference.meaning_of(action)), action


@every_command
def test_the_help_shows_every_default_the_same_way(command: Subcommand) -> None:
    parser = Parser(prog="octostore")
    configure(parser, command)
    for one in (parser, *parser.nested.values()):
        for action in one.all_arguments:
            default = one.get_default(action.dest)
            has_value = action.nargs != 0 and default not in (None, [], "", argparse.SUPPRESS, UNSET)
            meaning = reference.meaning_of(action)
            is_conventional = SHOWN_DEFAULT.search(meaning) is not None
            assert is_conventional or not (has_value or re.search(r"\bdefault\b", meaning)), (action.dest, meaning)


def test_the_help_shows_the_defaults_of_variables_the_same_way() -> None:
    assert [
        meaning for meaning in VARIABLES.values() if "default" in meaning and not SHOWN_DEFAULT.search(meaning)
    ] == []


def test_the_help_of_nested_commands() -> None:
    for action in ("create", "list", "revoke"):
        done = run_cli("token", action, "--help")
        assert done.code == 0
        assert done.out.startswith(f"usage: octostore token {action} ")
        assert "--json " in done.out


@every_command
def test_every_example_can_be_typed(command: Subcommand, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command.module.EXAMPLES
    for line in command.module.EXAMPLES:
        subprocess.run(["bash", "-n", "-c", line], check=True)
        found = command_lines(line)
        assert found, f"there is no octostore in {line}"
        for arguments in found:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
            assert parse(arguments).command == arguments[0]


def command_lines(line: str) -> list[list[str]]:
    """The arguments of each call of `octostore` in a line for a shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    found: list[list[str]] = []
    current: list[str] | None = None
    is_from_xargs = False
    for word in lexer:
        if current is None and word == "octostore":
            current = ["a-job"] if is_from_xargs else []
            found.append(current)
        elif word in SEPARATORS:
            current = None
        elif current is not None:
            current.append(word)
        elif word.startswith("$(") and word.endswith(")"):
            found += command_lines(word[2:-1])
        is_from_xargs = word == "xargs"
    return [words[1:2] + words[:1] + words[2:] if words[0] == "a-job" else words for words in found]


def test_how_examples_are_read() -> None:
    assert command_lines("octostore dead --json | jq '.a | .b' | xargs octostore requeue") == [
        ["dead", "--json"],
        ["requeue", "a-job"],
    ]
    assert command_lines('eval "$(octostore completion bash)"    # in ~/.bashrc') == [["completion", "bash"]]
    assert command_lines("X=$(octostore claim deploy --lease) && export X") == [["claim", "deploy", "--lease"]]
    assert command_lines("octostore run j -- ./a.sh --b    # why") == [["run", "j", "--", "./a.sh", "--b"]]
    assert command_lines("A=b octostore list > file") == [["list"]]


# The reference


def test_the_reference_has_everything() -> None:
    text = reference.reference()
    for command in SUBCOMMANDS:
        assert f"\n### octostore {command.name}\n" in text
        for line in command.module.EXAMPLES:
            assert f"\n{line}\n" in text
    for code in exit_codes.MEANINGS:
        assert f"\n| {code} | " in text
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for name in set(re.findall(r"\bOCTOSTORE_[A-Z_]+\b", sources)):
        assert name in VARIABLES | INSIDE, f"{name} is missing in src/octostore/cli/environment.py"
