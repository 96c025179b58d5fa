"""The requests in the documents that existing clients follow, byte for byte, without `curl`."""

import json
import re
import shlex
from typing import Any, NamedTuple

import pytest

from tests.support.connections import Response
from tests.support.seed_lines import CLAIM_LOOP, ONE_OWNER
from tests.support.server import ServerProcess


class Line(NamedTuple):
    """The request that curl would send."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def read(document: str, token: str) -> Line:
    variables = dict(re.findall(r'^(\w+)="(\S+)"$', document, re.MULTILINE))
    for name, value in variables.items():
        document = document.replace(f"${name}", value)
    line = re.search(r"\bcurl (.*?)(?:\)\n|\Z)", document, re.DOTALL)
    assert line is not None
    words = iter(shlex.split(line[1].replace("\\\n", " ")))
    method, path, headers, body = "GET", "", {}, b""
    for word in words:
        match word:
            case "-X":
                method = next(words)
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value.replace("***", token)
            case "-d":
                body = next(words).replace("\n", "").encode()  # as curl does
            case "-s":
                pass
            case _:
                path = word.removeprefix("https://api.octostore.io")
    return Line(method, path, headers, body)


def send(server: ServerProcess, line: Line) -> Response:
    return server.request(line.method, line.path, raw=line.body, headers=line.headers, token="")


@pytest.mark.parametrize(
    ("document", "name", "metadata"),
    [
        pytest.param(ONE_OWNER, "deploy-main", "host=runner-7 build=1842", id="one owner"),
        pytest.param(
            CLAIM_LOOP,
            "github-issue-1842",
            "runner=agent-3 task=https://github.com/acme/app/issues/1842",
            id="claim loop",
        ),
    ],
)
def test_requests_in_the_seed_documents_get_the_documented_responses(
    server: ServerProcess, document: str, name: str, metadata: str
) -> None:
    agents = [server.new_token(f"{name}-{number}") for number in range(3)]
    lines = [read(document, agent) for agent in agents]
    assert {(line.method, line.path) for line in lines} == {("POST", f"/locks/{name}/acquire")}
    responses = [send(server, line) for line in lines]
    assert [response.status for response in responses] == [200] * 3
    acquired, *others = [response.json for response in responses]
    assert acquired["status"] == "acquired"
    assert {"lease_id", "expires_at"} <= set(acquired)
    for held in others:
        assert (held["status"], held["metadata"], held["expires_at"]) == ("held", metadata, acquired["expires_at"])
    renew_and_release(server, name, agents, acquired)


def renew_and_release(server: ServerProcess, name: str, agents: list[str], acquired: Any) -> None:
    """The documents say: renew while work is active, release when it completes; then others may acquire it."""
    lease = {"lease_id": acquired["lease_id"]}
    renewed = server.post(f"/locks/{name}/renew", lease, token=agents[0])
    assert (renewed.status, renewed.json["lease_id"]) == (200, acquired["lease_id"])
    assert server.get(f"/locks/{name}", token=agents[1]).json["status"] == "held"
    released = server.post(f"/locks/{name}/release", lease, token=agents[0])
    assert (released.status, json.loads(released.body)) == (200, None)
    assert server.post(f"/locks/{name}/acquire", token=agents[1]).json["status"] == "acquired"
    assert server.post(f"/locks/{name}/renew", lease, token=agents[0]).status == 404
