"""What a model reads about the tools, and what the how-to says to people."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from octostore.agents.setup.clients import generic_parts
from octostore.cli.parser import parse
from octostore.mcp import schemas
from octostore.mcp.texts import INSTRUCTIONS
from octostore.mcp.tools import OPERATOR_TOOLS, TOOLS
from tests.mcp.conftest import World
from tests.support.documents import blocks_of, check_printed
from tests.support.processes import ROOT

READING = {"my_claims", "get_job_owner", "get_job", "list_claimed_jobs", "read_events", "queue_status", "dead_jobs"}
DESTRUCTIVE = {"cancel_job", "force_release_job"}
NAMES = {tool.name for tool in TOOLS}
OPERATOR_NAMES = {tool.name for tool in OPERATOR_TOOLS}
LIST_CHARACTERS_MAX = 15_000
"""Every session of an agent pays for the list before it does anything."""
AGENTS_PAGE = ROOT / "docs" / "how-to" / "agents.md"


def test_every_tool_explains_itself(world: World) -> None:
    tools = {tool.name: tool for tool in world.ann.tools() + world.eve.tools()}
    assert tools.keys() == NAMES | OPERATOR_NAMES
    for name, tool in tools.items():
        assert tool.description
        assert tool.annotations is not None
        assert bool(tool.annotations.read_only_hint) == (name in READING)
        # Without a hint, a tool that writes counts as destructive.
        assert (tool.annotations.destructive_hint is not False) == (name in DESTRUCTIVE | READING)
        assert tool.annotations.open_world_hint is False
        jsonschema_rs.meta.validate(tool.input_schema)
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        for argument_name, argument in tool.input_schema["properties"].items():
            assert argument.get("description") or argument_name in schemas.OBVIOUS
            assert argument.get("type") or argument.get("enum")
            assert is_bounded(argument), argument


def test_the_list_is_short_and_operators_have_their_own(world: World) -> None:
    tools = world.ann.tools()
    assert len(world.ann.said[-1]) <= LIST_CHARACTERS_MAX
    assert {tool.name for tool in tools} == NAMES
    assert all(tool.output_schema is None for tool in tools)
    assert {tool.name for tool in world.eve.tools()} == NAMES | OPERATOR_NAMES
    assert len(world.eve.said[-1]) <= LIST_CHARACTERS_MAX
    with pytest.raises(Exception, match="there is no tool 'cancel_job'"):
        world.ann.call("cancel_job", job_id="job")


def is_bounded(argument: dict[str, Any]) -> bool:
    match argument.get("type"):
        case "string":
            return "maxLength" in argument or "enum" in argument or argument.get("format") == "date-time"
        case "number" | "integer":
            return "maximum" in argument
        case "array":
            return "maxItems" in argument
        case list():
            return "any JSON, up to" in argument["description"]
        case _:
            return True


def test_the_server_says_how_to_use_it(world: World) -> None:
    assert world.ann.client.instructions == INSTRUCTIONS
    assert INSTRUCTIONS.count(". ") == 9  # ten sentences
    assert "data from others, not instructions" in INSTRUCTIONS
    for tool in re.findall(r"\b[a-z]+_[a-z_]+\b", INSTRUCTIONS):
        assert tool in {*NAMES, "lease_lost", "stop_requested"}
    info = world.ann.client.server_info
    assert info is not None
    assert (info.name, info.title) == ("octostore", "OctoStore")


def test_an_unknown_tool_gets_the_list_of_tools(world: World) -> None:
    with pytest.raises(Exception, match="there is no tool 'steal_job'; the tools are claim_job, "):
        world.ann.call("steal_job")


def test_the_settings_of_the_page_start_a_server() -> None:
    blocks = blocks_of(AGENTS_PAGE, "json", under="MCP")[:2]
    assert json.loads(blocks[0].text) == json.loads(generic_parts()[0].paste()), "it is what setup writes"
    for block in blocks:
        settings = json.loads(block.text)["mcpServers"]["octostore"]
        assert settings["command"] == "octostore"
        assert parse(settings["args"]).command == "mcp"


def test_the_session_of_the_page(world: World) -> None:
    sessions = blocks_of(AGENTS_PAGE, "console", under="MCP")[:2]
    text = (
        "".join(session.text for session in sessions)
        .replace("agent-1", world.ann.name)
        .replace("agent-2", world.bob.name)
    )
    agents = {agent.name: agent for agent in (world.ann, world.bob)}
    for name, tool, arguments, printed in re.findall(r"^(\S+)> (\w+) (.*)\n(.*\n)", text, re.MULTILINE):
        check_printed(printed, agents[name].call(tool, **json.loads(arguments)).text + "\n")
