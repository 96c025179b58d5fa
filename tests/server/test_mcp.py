"""`/mcp` over HTTP: malformed messages, headers, authorization, and where clients find out about tokens."""

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
    """A server without optional packages, behind a proxy."""
    options = ["--allow-host", "locks.example.org", "--allow-origin", SITE, "--trusted-proxy", "127.0.0.2"]
    options += ["--max-claims", "2"]
    with ServerProcess(tmp_path_factory.mktemp("home"), *options, program=BARE) as process:
        yield process
        process.check_has_not_failed()


def test_one_message_gets_one_json_response(server: ServerProcess) -> None:
    response = server.post("/mcp", LIST, headers=LIST_FIELDS)
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert (response.json["id"], response.json["result"]["resultType"]) == (1, "complete")
    assert "mcp-session-id" not in response.headers


def test_the_default_headers_of_curl_are_accepted(server: ServerProcess) -> None:
    fields = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "*/*"}
    assert server.post("/mcp", message("ping"), headers=fields).json == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_post_is_allowed(server: ServerProcess, method: str) -> None:
    response = server.request(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert (response.status, response.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "body", [message("notifications/initialized", None), {"jsonrpc": "2.0", "id": 1, "result": {}}]
)
def test_messages_without_a_reply_are_accepted(server: ServerProcess, body: Any) -> None:
    response = server.post("/mcp", body)
    assert (response.status, response.body) == (202, b"")


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
def test_a_malformed_message_is_refused(server: ServerProcess, body: bytes, code: int) -> None:
    response = server.post("/mcp", raw=body)
    assert (response.status, response.json["error"]["code"]) == (400, code)
    assert response.json["error"]["message"]


@pytest.mark.parametrize(
    ("method", "params", "code", "status"),
    [
        ("resources/list", {}, -32601, 404),
        ("tools/call", {"name": "nothing"}, -32602, 400),
        ("tools/call", {"name": "claim_job", "arguments": []}, -32602, 400),
    ],
)
def test_an_unknown_method_or_tool_is_a_protocol_error(
    server: ServerProcess, method: str, params: dict[str, Any], code: int, status: int
) -> None:
    """The status shows it too, except to older clients, which would take it for the end of their session."""
    fields = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method, "Mcp-Name": params.get("name", "")}
    response = server.post("/mcp", message(method, "seven", **params, _meta=META), headers=fields)
    assert (response.status, response.json["id"], response.json["error"]["code"]) == (status, "seven", code)
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
def test_headers_must_match_the_message(server: ServerProcess, fields: dict[str, str], body: Any, code: int) -> None:
    response = server.post("/mcp", body, headers=fields)
    assert (response.status, response.json["error"]["code"]) == (400, code)
    assert server.get("/jobs/mismatched").json["status"] == "free"


def test_a_header_may_be_in_base64(server: ServerProcess) -> None:
    fields = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "=?base64?dG9vbHMvbGlzdA==?="}
    assert server.post("/mcp", LIST, headers=fields).status == 200


def test_the_usual_body_limit_applies(server: ServerProcess) -> None:
    assert server.post("/mcp", message("ping", text="x" * 330_000)).status == 413


def test_the_usual_claim_limit_applies(server: ServerProcess) -> None:
    token = server.new_token("limited")
    responses = [server.post("/mcp", calling("claim_job", job_id=f"job-{n}"), token=token) for n in range(3)]
    results = [json.loads(response.json["result"]["content"][0]["text"]) for response in responses]
    assert [one.get("status") for one in results[:2]] == ["claimed", "claimed"]
    assert (results[2]["code"], results[2]["limit"]) == ("limit_exceeded", 2)
    assert server.get("/jobs/job-2").json["status"] == "free"


# Authorization


@pytest.mark.parametrize(("token", "error"), [("", None), ("octo_wrong", 'error="invalid_token"')])
def test_a_request_without_a_valid_token_gets_the_metadata_url(
    server: ServerProcess, token: str, error: str | None
) -> None:
    response = server.post("/mcp", message("ping"), token=token)
    assert response.status == 401
    scheme, _, parameters = response.headers["www-authenticate"].partition(" ")
    where = f'resource_metadata="{server.url}{METADATA}/mcp"'
    assert (scheme, parameters) == ("Bearer", where if error is None else f"{error}, {where}")
    metadata = server.get(f"{METADATA}/mcp", token="")
    assert metadata.status == 200
    assert metadata.json["resource"] == f"{server.url}/mcp"
    assert metadata.json["scopes_supported"] == ["read", "claim", "admin"]
    assert metadata.json["bearer_methods_supported"] == ["header"]
    assert server.get(METADATA, token="").json == metadata.json


def test_other_routes_do_not_send_the_metadata_url(server: ServerProcess) -> None:
    assert server.get("/jobs", token="").headers["www-authenticate"] == "Bearer"


def test_x_forwarded_proto_counts_only_from_a_trusted_proxy(server: ServerProcess) -> None:
    fields = {"X-Forwarded-Proto": "https", "Host": "locks.example.org"}
    assert server.get(METADATA, token="", headers=fields).json["resource"] == "http://locks.example.org/mcp"


def test_other_origins_and_hosts_are_refused(server: ServerProcess) -> None:
    assert server.post("/mcp", message("ping"), headers={"Origin": "https://evil.example.org"}).status == 403
    assert server.post("/mcp", message("ping"), headers={"Host": "evil.example.org"}).status == 421
    allowed = server.post("/mcp", message("ping"), headers={"Origin": SITE})
    assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, SITE)


def test_a_browser_may_send_the_headers_of_the_protocol(server: ServerProcess) -> None:
    fields = {"Origin": SITE, "Access-Control-Request-Method": "POST"}
    response = server.request("OPTIONS", "/mcp", token="", headers=fields)
    allowed = set(response.headers["access-control-allow-headers"].split(", "))
    assert {"authorization", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"} <= allowed


# Cost


def test_calls_are_counted_and_logged_like_any_other_and_imported_on_first_use(tmp_path: Path) -> None:
    program = (sys.executable, "-X", "importtime", "-m", "octostore")
    with ServerProcess(tmp_path, "--access-log", program=program) as server:
        assert "| octostore.server.app" in " ".join(server.log.split())
        assert "octostore.mcp" not in server.log  # imported on the first call
        assert "octostore.client.async_store" not in server.log
        server.post("/mcp", calling("claim_job", job_id="counted"))
        assert "octostore.mcp" in server.log
        page = server.get("/metrics").body.decode()
        assert 'route="POST /mcp"' in page
        assert re.search(r'^octostore_claims_total{\w+="claimed"} 1\b', page, re.MULTILINE)
        assert "path=/mcp route=/mcp status=200" in server.log
