"""The skill and the plugin: in the form that clients expect, the same everywhere, and correct."""

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

from docs.references import plugin
from octostore._version import __version__
from octostore.agents import skill
from octostore.agents.setup.clients import CLIENTS, EVENTS
from octostore.agents.setup.parts import SKILL_MARK
from octostore.mcp.tools import TOOLS
from tests.support.documents import Machine, blocks_of, check_printed
from tests.support.processes import ROOT
from tests.support.server import ServerProcess

FOLDER = ROOT / "src" / "octostore" / "agents" / "skill"
NAME_MAX, DESCRIPTION_MAX, LINES_MAX = 64, 1_024, 120
every_page = pytest.mark.parametrize("page", skill.PAGES)


def front_matter() -> tuple[dict[str, str], str]:
    _, front, body = skill.pages()["SKILL.md"].split("---\n", 2)
    return dict(re.findall(r"^(\w+): (.*)$", front, re.MULTILINE)), body


# Form


def test_the_front_matter() -> None:
    fields, _ = front_matter()
    assert fields["name"] == skill.NAME
    assert re.fullmatch(rf"[a-z0-9-]{{1,{NAME_MAX}}}", fields["name"])
    assert 0 < len(fields["description"]) <= DESCRIPTION_MAX
    assert not re.search(r"[<>]|: |^[\"'\[{]", fields["description"]), "YAML would read something else"


def test_the_body_is_short() -> None:
    _, body = front_matter()
    assert body.count("\n") < LINES_MAX
    assert all(text.count("\n") < LINES_MAX for text in skill.pages().values())


@every_page
def test_every_page_says_who_wrote_it(page: str) -> None:
    assert SKILL_MARK in skill.pages()[page]


def test_every_page_is_linked_and_no_other() -> None:
    links = set(re.findall(r"\]\(([^)]+)\)", front_matter()[1]))
    assert links == set(skill.PAGES) - {"SKILL.md"}
    assert {path.name for path in FOLDER.glob("*.md")} == set(skill.PAGES)


def test_every_result_is_explained() -> None:
    _, body = front_matter()
    for word in ("held", "empty", "all_done", "lost", "done", "delayed", "dead", "unreachable", "not allowed"):
        assert word in body
    for outcome in ("done", "failed", "deferred", "released"):
        assert f"| `{outcome}` |" in body


# Content


def test_the_page_for_mcp_names_tools_that_exist() -> None:
    table = re.findall(r"^\| [^|]+ \| (`.*) \|$", skill.pages()["mcp.md"], re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`(\w+)`", cell.split(" with ")[0])}
    assert len(named) >= 6
    assert named <= {tool.name for tool in TOOLS}
    for cell in table:
        tool, with_, arguments = cell.partition(" with ")
        if with_:
            (found,) = [one for one in TOOLS if f"`{one.name}`" == tool]
            assert set(re.findall(r"`(\w+)`", arguments)) <= set(found.takes.__struct_fields__)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path / "machine") as machine:
        yield machine
        machine.do("octostore mine --owner agent-7 --release-all >/dev/null")


def test_every_command_for_a_shell_runs(machine: Machine) -> None:
    """Each block runs in its own shell, as an agent's commands do."""
    machine.do("octostore enqueue review --queue reviews --job-id review-76")
    for block in blocks_of(FOLDER / "shell.md", "sh"):
        machine.do(block.text.replace("REVIEW", "review-76"))
    story = machine.do("octostore list --status all --json")
    statuses = {job["job_id"]: job["status"] for job in json.loads(story)["jobs"]}
    assert statuses == {
        "github-issue-1842": "done",
        "nightly-report": "free",
        "review-76": "queued",
        "review-77": "queued",
    }


def test_every_call_with_curl_works(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "server") as server, Machine(tmp_path / "machine") as machine:
        machine.env |= {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": server.token}
        blocks = blocks_of(FOLDER / "curl.md")
        typed = "\n".join(block.text for block in blocks if block.kind == "sh")
        printed = machine.do(typed)
        (expected,) = [block.text for block in blocks if block.kind == "text"]
        check_printed(expected, printed.splitlines(keepends=True)[0])
        responses = [json.loads(line) for line in printed.splitlines()[1:]]
        assert [response.get("error") for response in responses] == [None] * 4
        assert responses[-1]["status"] == "empty"
        assert responses[-2]["outcome"] == "done"


def test_the_block_for_agents_names_commands_that_exist(machine: Machine) -> None:
    """As written in AGENTS.md, with a job and a queue filled in."""
    lines = re.findall(
        r"`(octostore [^`]+)`",
        next(part.paste() for part in CLIENTS["claude"].parts(False) if part.path == "AGENTS.md"),
    )
    assert len(lines) >= 6
    machine.env["OCTOSTORE_OWNER"] = "agent-7"
    machine.do("octostore enqueue review --queue reviews --job-id review-76")
    for line in lines:
        machine.do(line.replace("JOB", "issue-1").replace("QUEUE", "reviews"))


# The plugin


def test_the_plugin_has_no_other_files() -> None:
    present = {str(path.relative_to(ROOT)) for path in (ROOT / plugin.FOLDER).rglob("*") if path.is_file()}
    assert present == {name for name in plugin.files() if name.startswith(plugin.FOLDER)}


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_the_manifests(client: str) -> None:
    folder = ROOT / plugin.FOLDER
    manifest: dict[str, Any] = json.loads((folder / f".{client}-plugin" / "plugin.json").read_text(encoding="utf-8"))
    assert re.fullmatch(r"[a-z0-9-]+", manifest["name"])
    assert manifest["version"] == __version__
    assert len(manifest["description"]) <= 1_024
    for path in (manifest.get(key, ".") for key in ("skills", "mcpServers", "hooks")):
        assert (folder / path).exists()
    hooks = json.loads((folder / "hooks" / "hooks.json").read_text(encoding="utf-8"))
    assert hooks["hooks"].keys() == set(EVENTS.values())
    marketplace = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text(encoding="utf-8"))
    assert [(ROOT / one["source"]).resolve() for one in marketplace["plugins"]] == [folder]


# The wheel


def test_the_skill_is_in_the_wheel(tmp_path: Path) -> None:
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(path) as wheel:
        for name, text in skill.pages().items():
            assert wheel.read(f"octostore/agents/skill/{name}").decode() == text
