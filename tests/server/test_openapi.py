"""The OpenAPI document is valid, complete, and says what is so: schemathesis asks a real server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import positive_data_acceptance
from schemathesis.specs.openapi.schemas import OpenApiSchema

from octostore.core.limits import JSON_INTEGER_MAX
from octostore.server.examples import curl_line
from octostore.server.openapi import document_of
from octostore.server.routes import ROUTES
from octostore.wire.tokens import new_token
from tests.support.server import ServerProcess

DOCUMENT = document_of(ROUTES)
OPERATIONS = [
    pytest.param(operation, id=operation["operationId"])
    for operations in DOCUMENT["paths"].values()
    for operation in operations.values()
]


def schema_in(where: Any) -> dict[str, Any]:
    """A schema of the document that stands by itself."""
    return {**where, "components": DOCUMENT["components"]}


def is_valid(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema_in(schema), validate_formats=True).is_valid(value)


def responses_of(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for status, response in operation["responses"].items():
        name = response.get("$ref", "").rpartition("/")[2]
        yield status, DOCUMENT["components"]["responses"][name] if name else response


class TestDocument:
    def test_it_is_valid(self) -> None:
        schemathesis.openapi.from_dict(document_of(ROUTES)).validate()

    def test_its_schemas_are_valid(self) -> None:
        for schema in DOCUMENT["components"]["schemas"].values():
            jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
            jsonschema_rs.Draft202012Validator(schema_in(schema))  # which finds references that lead nowhere

    def test_it_has_every_route(self) -> None:
        told = {(method.upper(), path) for path, operations in DOCUMENT["paths"].items() for method in operations}
        assert told == {(route.method, route.path) for route in ROUTES}

    def test_it_is_served(self, server: ServerProcess) -> None:
        answer = server.get("/openapi.json", token="")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json == json.loads(json.dumps(DOCUMENT))

    def test_names_of_operations_are_unique(self) -> None:
        names = [operation.values[0]["operationId"] for operation in OPERATIONS]
        assert sorted(names) == sorted(set(names))

    def test_failures_always_say_what_and_which(self) -> None:
        assert {"error", "code", "request_id"} <= set(DOCUMENT["components"]["schemas"]["Failure"]["required"])


class TestExamples:
    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_bodies_match_their_schema(self, operation: dict[str, Any]) -> None:
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]["application/json"]
            assert is_valid(content["schema"], content["example"])

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_parameters_match_their_schema(self, operation: dict[str, Any]) -> None:
        for parameter in operation["parameters"]:
            examples = [*parameter["schema"]["examples"]] if "examples" in parameter["schema"] else []
            for example in [*examples, *([parameter["example"]] if "example" in parameter else [])]:
                assert is_valid(parameter["schema"], example), parameter

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_every_good_answer_in_json_has_one_that_matches(self, operation: dict[str, Any]) -> None:
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
            for field, told in schema.get("properties", {}).items():
                for option in (told, *told.get("anyOf", [])):
                    for example in option.get("examples", []):
                        assert is_valid(option, example), (name, field, example)


class TestWhatSchemathesisLeavesOut:
    """Streams do not end, so schemathesis cannot read them; and it never asks for problems."""

    def test_watching(self, server: ServerProcess) -> None:
        schema = DOCUMENT["paths"]["/locks/{job_id}/watch"]["get"]["responses"]["200"]["content"]["text/event-stream"]
        server.post("/locks/described/acquire")
        first = first_event(server, "/locks/described/watch")
        assert is_valid(schema["x-event-data"], first)

    def test_following_the_log(self, server: ServerProcess) -> None:
        schema = DOCUMENT["paths"]["/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]
        assert is_valid(schema["x-event-data"], first_event(server, "/events"))

    def test_an_error_as_a_problem(self, server: ServerProcess) -> None:
        answer = server.get("/jobs?limit=0", headers={"Accept": "application/problem+json"})
        responses = dict(responses_of(DOCUMENT["paths"]["/jobs"]["get"]))
        assert answer.headers["content-type"] == "application/problem+json"
        assert is_valid(responses["400"]["content"]["application/problem+json"]["schema"], answer.json)


def first_event(server: ServerProcess, path: str) -> Any:
    headers = {"Authorization": f"Bearer {server.token}", "Accept": "text/event-stream"}
    with requests.get(server.url + path, headers=headers, stream=True, timeout=10) as answer:
        assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
        lines = answer.iter_lines(chunk_size=1)
        return json.loads(next(line for line in lines if line.startswith(b"data: ")).removeprefix(b"data: "))


# Schemathesis


def described(**generation: Any) -> OpenApiSchema:
    config = schemathesis.Config.from_dict(
        {
            "seed": 1,  # the same every time, so that a failure is about what was changed; others are for `make faults`
            "generation": generation,
            # A session that has ended is gone; that is no fault of the request.
            "checks": {"positive_data_acceptance": {"expected-statuses": [200, 201, 204, 401, 403, 404, 409, 410]}},
        }
    )
    schema = schemathesis.openapi.from_dict(document_of(ROUTES), config=config)
    return schema.exclude(operation_id="watch_lock")  # a stream, which does not end


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose admin has a token from a file: nothing that is sent to it can revoke or rotate that one."""
    home = tmp_path_factory.mktemp("home")
    token, tokens_file = new_token(), home / "tokens"
    for path, text in ((tokens_file, f"admin read,claim,admin {token}"), (home / "admin.token", token)):
        path.touch(mode=0o600)
        path.write_text(text)
    with ServerProcess(home, "--tokens-file", str(tokens_file)) as process:
        yield process


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def check(case: schemathesis.Case, target: ServerProcess, session: requests.Session) -> None:
    do_not_wait(case)
    # A schema counts characters and not bytes, knows no letters beyond ASCII, and cannot tell 1e300 from a whole number
    # with 300 digits: so some of what it allows is refused. Everything else is checked for these, too.
    excluded = [] if can_be_told(parts_of(case)) else [positive_data_acceptance]
    # Whoever rotates a token cannot use it again.
    is_rotating = case.operation.path == "/auth/token/rotate"
    token = target.new_token("rotating") if is_rotating else target.token
    case.call_and_validate(
        base_url=target.url,
        session=session,
        headers={"Authorization": f"Bearer {token}"},
        excluded_checks=excluded,
        timeout=10,
    )


def do_not_wait(case: schemathesis.Case) -> None:
    """Waiting for a minute is allowed, and has tests of its own."""
    wait = case.body.get("wait_seconds") if isinstance(case.body, dict) else None
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 < wait <= 60:
        case.body["wait_seconds"] = 0.001


def parts_of(case: schemathesis.Case) -> list[Any]:
    return [case.path_parameters, case.query, case.headers, case.body]


def can_be_told(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii()
    if isinstance(value, dict):
        return all(can_be_told(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return all(can_be_told(item) for item in value)
    return not isinstance(value, int | float) or abs(value) <= JSON_INTEGER_MAX


@described(codec="ascii", **{"max-examples": 10}).parametrize()
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_the_server_is_as_described(
    case: schemathesis.Case, target: ServerProcess, session: requests.Session
) -> None:
    check(case, target, session)
