"""`/mcp` as HTTP: what is no message, which headers count, who may call, and where to learn about tokens."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_http import calling, message
from tests.support.server import ServerProcess

BARE = (sys.executable, "-m", "tests.support.bare")
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
LIST = message("tools/list", _meta=META)
LIST_FIELDS = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/list"}
METADATA = "/.well-known/oauth-protected-resource"
SITE = "https://agents.example.org"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One that has nothing but what a server needs, behind a proxy."""
    options = ["--allow-host", "locks.example.org", "--allow-origin", SITE, "--trusted-proxy", "127.0.0.2"]
    options += ["--max-claims", "2"]
    with ServerProcess(tmp_path_factory.mktemp("home"), *options, program=BARE) as process:
        yield process
        process.check_has_not_failed()


def test_it_answers_one_message_with_one_document(server: ServerProcess) -> None:
    answer = server.post("/mcp", LIST, headers=LIST_FIELDS)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert (answer.json["id"], answer.json["result"]["resultType"]) == (1, "complete")
    assert "mcp-session-id" not in answer.headers


def test_it_takes_what_curl_sends(server: ServerProcess) -> None:
    fields = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "*/*"}
    assert server.post("/mcp", message("ping"), headers=fields).json == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_is_nothing_but_post(server: ServerProcess, method: str) -> None:
    answer = server.request(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "body", [message("notifications/initialized", None), {"jsonrpc": "2.0", "id": 1, "result": {}}]
)
def test_what_needs_no_answer_is_accepted(server: ServerProcess, body: Any) -> None:
    answer = server.post("/mcp", body)
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "method": "ping"}', -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\\ud800"}}', -32700),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": ' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}",
            -32700,
        ),
        (b"[]", -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600),
        (b"7", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32600),
    ],
)
def test_what_is_no_message_is_refused(server: ServerProcess, body: bytes, code: int) -> None:
    answer = server.post("/mcp", raw=body)
    assert (answer.status, answer.json["error"]["code"]) == (400, code)
    assert answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("method", "params", "code", "status"),
    [
        ("resources/list", {}, -32601, 404),
        ("tools/call", {"name": "nothing"}, -32602, 400),
        ("tools/call", {"name": "claim_job", "arguments": []}, -32602, 400),
    ],
)
def test_what_cannot_be_asked_is_an_error_of_the_protocol(
    server: ServerProcess, method: str, params: dict[str, Any], code: int, status: int
) -> None:
    """The status says so, too, but not to clients that would take it for the end of their session."""
    fields = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method, "Mcp-Name": params.get("name", "")}
    answer = server.post("/mcp", message(method, "seven", **params, _meta=META), headers=fields)
    assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (status, "seven", code)
    earlier = server.post("/mcp", message(method, "seven", **params), headers={"MCP-Protocol-Version": "2025-06-18"})
    assert (earlier.status, earlier.json["id"], earlier.json["error"]["code"]) == (200, "seven", code)


@pytest.mark.parametrize(
    ("fields", "body", "code"),
    [
        ({"MCP-Protocol-Version": "1900-01-01"}, message("ping"), -32022),
        ({"MCP-Protocol-Version": "1900-01-01"}, message("notifications/initialized", None), -32022),
        ({"MCP-Protocol-Version": VERSION}, message("ping"), -32602),
        ({"MCP-Protocol-Version": VERSION}, {"jsonrpc": "2.0", "id": 1, "result": {}}, -32600),
        ({}, LIST, -32020),
        ({**LIST_FIELDS, "MCP-Protocol-Version": "2025-11-25"}, LIST, -32020),
        ({**LIST_FIELDS, "Mcp-Method": "tools/call"}, LIST, -32020),
        ({"MCP-Protocol-Version": VERSION}, LIST, -32020),
        (
            {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "release_job"},
            message("tools/call", _meta=META, name="claim_job", arguments={"job_id": "mismatched"}),
            -32020,
        ),
    ],
)
def test_headers_must_say_the_same_as_the_message(
    server: ServerProcess, fields: dict[str, str], body: Any, code: int
) -> None:
    answer = server.post("/mcp", body, headers=fields)
    assert (answer.status, answer.json["error"]["code"]) == (400, code)
    assert server.get("/jobs/mismatched").json["status"] == "free"


def test_a_header_may_be_in_base64(server: ServerProcess) -> None:
    fields = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "=?base64?dG9vbHMvbGlzdA==?="}
    assert server.post("/mcp", LIST, headers=fields).status == 200


def test_a_body_may_be_as_large_as_everywhere(server: ServerProcess) -> None:
    assert server.post("/mcp", message("ping", text="x" * 330_000)).status == 413


def test_a_principal_has_as_many_claims_as_everywhere(server: ServerProcess) -> None:
    token = server.new_token("limited")
    answers = [server.post("/mcp", calling("claim_job", job_id=f"job-{n}"), token=token) for n in range(3)]
    told = [json.loads(answer.json["result"]["content"][0]["text"]) for answer in answers]
    assert [one.get("status") for one in told[:2]] == ["claimed", "claimed"]
    assert (told[2]["code"], told[2]["limit"]) == ("limit_exceeded", 2)
    assert server.get("/jobs/job-2").json["status"] == "free"


# Who may call


@pytest.mark.parametrize(("token", "error"), [("", None), ("octo_wrong", 'error="invalid_token"')])
def test_without_a_good_token_one_hears_where_to_learn_about_them(
    server: ServerProcess, token: str, error: str | None
) -> None:
    answer = server.post("/mcp", message("ping"), token=token)
    assert answer.status == 401
    scheme, _, said = answer.headers["www-authenticate"].partition(" ")
    where = f'resource_metadata="{server.url}{METADATA}/mcp"'
    assert (scheme, said) == ("Bearer", where if error is None else f"{error}, {where}")
    told = server.get(f"{METADATA}/mcp", token="")
    assert told.status == 200
    assert told.json["resource"] == f"{server.url}/mcp"
    assert told.json["scopes_supported"] == ["read", "claim", "admin"]
    assert told.json["bearer_methods_supported"] == ["header"]
    assert server.get(METADATA, token="").json == told.json


def test_other_routes_say_no_more_than_before(server: ServerProcess) -> None:
    assert server.get("/jobs", token="").headers["www-authenticate"] == "Bearer"


def test_only_a_trusted_proxy_is_believed_that_it_speaks_tls(server: ServerProcess) -> None:
    fields = {"X-Forwarded-Proto": "https", "Host": "locks.example.org"}
    assert server.get(METADATA, token="", headers=fields).json["resource"] == "http://locks.example.org/mcp"


def test_pages_of_other_sites_and_other_names_are_refused(server: ServerProcess) -> None:
    assert server.post("/mcp", message("ping"), headers={"Origin": "https://evil.example.org"}).status == 403
    assert server.post("/mcp", message("ping"), headers={"Host": "evil.example.org"}).status == 421
    allowed = server.post("/mcp", message("ping"), headers={"Origin": SITE})
    assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, SITE)


def test_a_browser_may_send_the_headers_of_the_protocol(server: ServerProcess) -> None:
    fields = {"Origin": SITE, "Access-Control-Request-Method": "POST"}
    answer = server.request("OPTIONS", "/mcp", token="", headers=fields)
    allowed = set(answer.headers["access-control-allow-headers"].split(", "))
    assert {"authorization", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"} <= allowed


# What it costs


def test_it_is_counted_and_logged_like_any_other_route(tmp_path: Path) -> None:
    program = (sys.executable, "-X", "importtime", "-m", "octostore")
    with ServerProcess(tmp_path, "--access-log", program=program) as server:
        assert "| octostore.server.app" in " ".join(server.log.split())
        assert "octostore.mcp" not in server.log  # nothing of it is there before somebody asks
        assert "octostore.client.async_store" not in server.log
        server.post("/mcp", calling("claim_job", job_id="counted"))
        assert "octostore.mcp" in server.log
        page = server.get("/metrics").body.decode()
        assert 'route="POST /mcp"' in page
        assert re.search(r'^octostore_claims_total{\w+="claimed"} 1\b', page, re.MULTILINE)
        assert "path=/mcp route=/mcp status=200" in server.log
