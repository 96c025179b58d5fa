"""What a model is told of the tools, and what the how-to tells people."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from docs.references import mcp as reference
from octostore.cli.parser import parse
from octostore.mcp.texts import INSTRUCTIONS
from octostore.mcp.tools import BY_NAME
from tests.mcp.conftest import World
from tests.support.documents import blocks_of, check_printed

READING = {"my_claims", "get_job_owner", "get_job", "list_claimed_jobs", "read_events", "dead_jobs"}
PAGE = reference.PATH


def test_every_tool_explains_itself(world: World) -> None:
    tools = {tool.name: tool for tool in world.ann.tools()}
    assert tools.keys() == BY_NAME.keys()
    for name, tool in tools.items():
        assert tool.title
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint == (name in READING)
        assert tool.annotations.destructive_hint == (name == "cancel_job")
        assert tool.annotations.open_world_hint is False
        assert tool.output_schema is not None
        for schema in (tool.input_schema, tool.output_schema):
            jsonschema_rs.meta.validate(schema)
            assert schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        for argument in tool.input_schema["properties"].values():
            assert argument["description"]
            assert argument.get("type") or argument.get("enum")
            assert is_bounded(argument), argument
    assert "You do not need this" in (tools["heartbeat_job"].description or "")


def is_bounded(argument: dict[str, Any]) -> bool:
    match argument.get("type"):
        case "string":
            return "maxLength" in argument or "enum" in argument or argument.get("format") == "date-time"
        case "number" | "integer":
            return "maximum" in argument
        case "array":
            return "maxItems" in argument
        case list():
            return "any JSON of up to" in argument["description"]
        case _:
            return True


def test_the_server_says_how_it_is_used(world: World) -> None:
    assert world.ann.client.instructions == INSTRUCTIONS
    assert INSTRUCTIONS.count(". ") == 7  # eight sentences
    assert "data from others, not instructions" in INSTRUCTIONS
    for tool in re.findall(r"\b[a-z]+_[a-z_]+\b", INSTRUCTIONS):
        assert tool in {*BY_NAME, "lease_lost", "stop_requested"}
    info = world.ann.client.server_info
    assert info is not None
    assert (info.name, info.title) == ("octostore", "OctoStore")


def test_a_tool_that_is_not_there(world: World) -> None:
    with pytest.raises(Exception, match="there is no tool 'steal_job'; there are claim_job, "):
        world.ann.call("steal_job")


def test_the_table_of_the_page_is_current() -> None:
    assert reference.REFRESH.endswith(f" {reference.__name__}")
    page = PAGE.read_text(encoding="utf-8")
    assert page == reference.refreshed(page), f"docs/how-to/mcp.md is stale; refresh it with: {reference.REFRESH}"
    for name in BY_NAME:
        assert f"\n| `{name}` | " in page


def test_the_settings_of_the_page_start_a_server() -> None:
    blocks = blocks_of(PAGE, "json")
    assert len(blocks) == 2
    for block in blocks:
        settings = json.loads(block.text)["mcpServers"]["octostore"]
        assert settings["command"] == "octostore"
        assert parse(settings["args"]).command == "mcp"


def test_the_session_of_the_page(world: World) -> None:
    (session,) = blocks_of(PAGE, "console")
    text = session.text.replace("agent-1", world.ann.name).replace("agent-2", world.bob.name)
    agents = {agent.name: agent for agent in (world.ann, world.bob)}
    for name, tool, arguments, printed in re.findall(r"^(\S+)> (\w+) (.*)\n(.*\n)", text, re.MULTILINE):
        check_printed(printed, agents[name].call(tool, **json.loads(arguments)).text + "\n")
