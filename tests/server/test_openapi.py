"""The OpenAPI document is valid, complete and true: schemathesis compares it with a real server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from octostore.server.routes import ROUTES
from octostore.wire.tokens import new_token
from tests.support.api import DOCUMENT
from tests.support.processes import ROOT
from tests.support.server import ServerProcess

OPERATIONS: list[dict[str, Any]] = [
    operation for operations in DOCUMENT["paths"].values() for operation in operations.values()
]
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation["operationId"])


def schema_in(where: Any) -> dict[str, Any]:
    """A self-contained schema from the document."""
    return {**where, "components": DOCUMENT["components"]}


def is_valid(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema_in(schema), validate_formats=True).is_valid(value)


def responses_of(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for status, response in operation["responses"].items():
        name = response.get("$ref", "").rpartition("/")[2]
        yield status, DOCUMENT["components"]["responses"][name] if name else response


class TestDocument:
    def test_its_schemas_are_valid(self) -> None:
        for schema in DOCUMENT["components"]["schemas"].values():
            jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
            jsonschema_rs.Draft202012Validator(schema_in(schema))  # finds dangling references

    def test_descriptions_are_not_indented(self) -> None:
        for schema in DOCUMENT["components"]["schemas"].values():
            assert "\n " not in schema.get("description", ""), "Markdown would show it as code"

    def test_it_has_every_route(self) -> None:
        documented = {(method.upper(), path) for path, operations in DOCUMENT["paths"].items() for method in operations}
        assert documented == {(route.method, route.path) for route in ROUTES}

    def test_it_is_served(self, server: ServerProcess) -> None:
        response = server.get("/openapi.json", token="")
        assert response.headers["content-type"] == "application/json"
        assert response.json == json.loads(json.dumps(DOCUMENT))

    def test_operation_ids_are_unique(self) -> None:
        names = [operation["operationId"] for operation in OPERATIONS]
        assert sorted(names) == sorted(set(names))

    def test_failures_always_have_a_message_a_code_and_a_request_id(self) -> None:
        assert {"error", "code", "request_id"} <= set(DOCUMENT["components"]["schemas"]["Failure"]["required"])


class TestExamples:
    @each_operation
    def test_bodies_match_their_schema(self, operation: dict[str, Any]) -> None:
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]["application/json"]
            assert is_valid(content["schema"], content["example"])

    @each_operation
    def test_parameters_match_their_schema(self, operation: dict[str, Any]) -> None:
        for parameter in operation["parameters"]:
            examples = [*parameter["schema"]["examples"]] if "examples" in parameter["schema"] else []
            for example in [*examples, *([parameter["example"]] if "example" in parameter else [])]:
                assert is_valid(parameter["schema"], example), parameter

    @each_operation
    def test_every_successful_json_response_has_an_example_that_matches(self, operation: dict[str, Any]) -> None:
        for status, response in responses_of(operation):
            content = response.get("content", {}).get("application/json", {})
            if not content or status >= "300" or operation["operationId"] == "openapi":
                continue
            examples = [example["value"] for example in content.get("examples", {}).values()]
            examples = examples or [content["example"]]
            for example in examples:
                assert is_valid(content["schema"], example), example

    def test_fields_of_bodies_match_their_schema(self) -> None:
        for name, schema in DOCUMENT["components"]["schemas"].items():
            for field, described in schema.get("properties", {}).items():
                for option in (described, *described.get("anyOf", [])):
                    for example in option.get("examples", []):
                        assert is_valid(option, example), (name, field, example)


class TestWhatSchemathesisLeavesOut:
    """Schemathesis cannot read streams, because they do not end, and never asks for problem documents."""

    def test_watching(self, server: ServerProcess) -> None:
        schema = DOCUMENT["paths"]["/locks/{job_id}/watch"]["get"]["responses"]["200"]["content"]["text/event-stream"]
        server.post("/locks/described/acquire")
        with server.stream("/locks/described/watch") as events:
            assert is_valid(schema["x-event-data"], events.next().data)

    def test_following_the_log(self, server: ServerProcess) -> None:
        schema = DOCUMENT["paths"]["/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]
        with server.stream("/events") as events:
            assert is_valid(schema["x-event-data"], events.next().data)

    def test_an_error_as_a_problem_document(self, server: ServerProcess) -> None:
        response = server.get("/jobs?limit=0", headers={"Accept": "application/problem+json"})
        responses = dict(responses_of(DOCUMENT["paths"]["/jobs"]["get"]))
        assert response.headers["content-type"] == "application/problem+json"
        assert is_valid(responses["400"]["content"]["application/problem+json"]["schema"], response.json)


# Schemathesis


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose admin token is from a file, so that no request can revoke or rotate it."""
    home = tmp_path_factory.mktemp("home")
    token, tokens_file = new_token(), home / "tokens"
    tokens_file.touch(mode=0o600)
    tokens_file.write_text(f"admin read,claim,admin {token}")
    with ServerProcess(home, "--tokens-file", str(tokens_file), token=token) as process:
        yield process
        process.check_has_not_failed()


CONFIG = """
[checks.positive_data_acceptance]
# Valid requests too: an ended session is gone (410), and a deadline of a millisecond cannot be met (408).
expected-statuses = [200, 201, 204, 401, 403, 404, 408, 409, 410]
[checks.negative_data_rejection]
# Unknown headers are ignored, as in HTTP.
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 410, 415, 422, 428, 429, "5xx"]
[[operations]]
include-operation-id = "mcp"
# The protocol defines the messages, and its replies say what is wrong.
[operations.checks.positive_data_acceptance]
expected-statuses = [200, 202, 400, 401, 403, 404, 408, 409]
"""


def run_schemathesis(target: ServerProcess, folder: Path, *arguments: str) -> None:
    """Run all its checks on everything but the endless stream."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)]
    command += ["run", f"{target.url}/openapi.json", "--exclude-operation-id", "watch_lock"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SCHEMATHESIS_HOOKS": "tests.support.schemathesis_hooks",
        "TARGET": target.url,
        "TOKEN": target.token,
    }
    done = subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No operations" not in done.stdout, done.stdout


class TestSchemathesis:
    """The same requests every time, so that a failure comes from a change; random ones in the slow test."""

    def test_it_finds_nothing(self, target: ServerProcess, tmp_path: Path) -> None:
        same = ("--seed", "1", "--max-examples", "2", "--generation-codec", "ascii")
        run_schemathesis(target, tmp_path, "--phases", "examples,fuzzing", *same)

    @pytest.mark.slow
    @pytest.mark.timeout(3_600)
    @pytest.mark.parametrize("codec", ["ascii", "utf-8"])
    def test_it_finds_nothing_in_a_long_run(self, codec: str, target: ServerProcess, tmp_path: Path) -> None:
        run_schemathesis(target, tmp_path, "--max-examples", "500", "--generation-codec", codec)
