"""The how-to for agents is followed, block by block.

`sh` runs from top to bottom, in one shell for each section; the `text` after it is what it prints. In `console`, each
line runs in its own shell; `agent-7$` is a shell of that agent. Blocks about MCP are run in `tests/mcp`, with the
official client.
"""

import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from octostore.cli import exit_codes
from octostore.keeping.watching import agent_here
from tests.keeping.conftest import end_keepers
from tests.support.documents import Machine, blocks_of, check_printed, follow
from tests.support.processes import ROOT
from tests.support.server import ServerProcess
from tests.support.starting import PROGRAM, read_at_start

PAGE = ROOT / "docs" / "how-to" / "agents.md"
TEXT = PAGE.read_text(encoding="utf-8")
SET_UP = TEXT.partition("\n")[0]
STEP = re.compile(r"^(?:([\w-]*)\$|(#)) (.*)\n((?:(?![\w-]*\$ |# ).*\n)*)", re.MULTILINE)
DURATION = re.compile(r"\b\d+(?:\.\d+)?(?:ms|s|m|h)\b(?: \d+(?:s|m))?(?: ago)?|\b(?:just )?now\b")
TOO_BUSY = ("no reply within 0", "has not answered within")
"""What a hook says if a busy store did not reply in time. The line is then run again, unless the page shows that."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    if agent_here() is not None:
        pytest.skip("an agent runs these tests, and would be watched")
    with Machine(tmp_path / "machine") as machine:
        yield machine
        for kept in machine.folder.rglob("*.db-kept-*"):
            end_keepers(kept)


def test_every_block_is_run() -> None:
    kinds = {
        section: [kind for kind, _ in groupby(block.kind for block in blocks_of(PAGE, under=section))]
        for section in [SET_UP, *re.findall(r"^## (.*)$", TEXT, re.MULTILINE)]
    }
    assert kinds == {
        SET_UP: ["sh", "text", "sh"],
        "What an agent gets": [],
        "Shell": ["console"],
        "MCP": ["json", "console", "json", "sh", "text", "console"],  # tests/mcp
        "curl": ["sh", "text"] * 3,
        "Hooks": ["console"],
    }


def test_the_page_and_the_readme_begin_with_the_setup_command() -> None:
    line = "octostore setup claude"
    assert blocks_of(PAGE)[0].text == f"{line}\n"
    assert blocks_of(ROOT / "README.md", under="In a coding agent")[0].text.startswith(line)


def test_it_is_set_up_and_removed_again(machine: Machine) -> None:
    follow(blocks_of(PAGE, under=SET_UP), machine)
    exist = [(machine.folder / name).exists() for name in (".codex/config.toml", ".cursor/mcp.json", ".mcp.json")]
    assert exist == [True, True, False]


def test_replies_have_the_exit_codes_of_the_table() -> None:
    rows = re.findall(r"^\| [^|]+ \| (?:exit code )?(\d+) \| ([^|]+) \|", TEXT, re.MULTILINE)
    codes = {word: int(code) for code, words in rows for word in re.findall(r"`(\w+)`", words)}
    assert exit_codes.CLAIMS.items() <= codes.items()
    assert (codes["lease_lost"], codes["unreachable"], codes["not_allowed"]) == (
        exit_codes.LOST,
        exit_codes.UNREACHABLE,
        exit_codes.NOT_ALLOWED,
    )


# Shells


class Shells:
    """A new shell for each line."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._keeper = 0

    def follow(self, section: str) -> None:
        for block in blocks_of(PAGE, "console", under=section):
            steps = STEP.findall(block.text)
            assert (
                "".join(f"{'#' if remark else f'{who}$'} {typed}\n{expected}" for who, remark, typed, expected in steps)
                == block.text
            )
            for who, is_remark, typed, expected in steps:
                if is_remark:
                    assert typed == "here the keeper is killed"
                    os.kill(self._keeper, signal.SIGKILL)
                else:
                    check_printed(normalized(expected), normalized(self._type(who, typed)))

    def _type(self, who: str, line: str) -> str:
        typed = shlex.split(line)
        is_plain = typed[0] == "octostore" and not {"|", ";"} & set(typed)
        command = [*PROGRAM, *typed[1:]] if is_plain else ["bash", "-c", line]
        env = {**read_at_start(os.environ), "OCTOSTORE_OWNER": who}
        code, printed = self._machine.start(command, env).end()
        if any(words in printed for words in TOO_BUSY) and "OCTOSTORE_URL" not in line:
            return self._type(who, line)
        assert code == expected_code(printed), printed
        self._keeper = next(map(int, re.findall(r"^  kept +by process (\d+)", printed, re.MULTILINE)), self._keeper)
        return printed


def normalized(printed: str) -> str:
    """Replace the host name and all durations."""
    printed = DURATION.sub("7s", printed.replace(f"on {os.uname().nodename},", "on vm,"))
    return re.sub(r" {2,}", "  ", printed)


def expected_code(printed: str) -> int:
    if " is lost: " in printed:
        return exit_codes.LOST
    status = re.match(r'(?:{"status":")?(\w+)', printed)
    return exit_codes.CLAIMS.get(status[1], exit_codes.SUCCESS) if status else exit_codes.SUCCESS


def test_agents_with_a_shell(machine: Machine) -> None:
    Shells(machine).follow("Shell")


def test_hooks(machine: Machine) -> None:
    Shells(machine).follow("Hooks")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_five_agents_share_issues_with_curl(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "server") as server,
        Machine(tmp_path / "agents", OCTOSTORE_HOME=server.home, SERVER=server.url) as machine,
    ):
        follow(blocks_of(PAGE, under="curl"), machine)
        assert [event["type"] for event in server.events("github-issue-1842")] == ["claimed", "done"]
        assert [event["type"] for event in server.events("github-issue-1843")] == ["claimed", "expired", "claimed"]
        assert server.get("/jobs/github-issue-1842").json["result"] == {"pr": 77}
        server.check_has_not_failed()
