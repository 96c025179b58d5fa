"""`/mcp` responds like the official SDK's streamable HTTP server: the same status and the same JSON-RPC code."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from octostore.mcp.http.tools import TOOLS
from octostore.mcp.protocol import CAPABILITIES_KEY, VERSION_KEY
from octostore.mcp.schemas import described
from tests.support.async_as_sync import Loop
from tests.support.mcp_http import message
from tests.support.server import ServerProcess

VERSION, EARLIER = "2026-07-28", "2025-06-18"
META = {VERSION_KEY: VERSION, CAPABILITIES_KEY: {}}
HELLO: dict[str, Any] = {"protocolVersion": EARLIER, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
CALL: dict[str, Any] = {"name": "get_job", "arguments": {"job_id": "job"}}
RESPONSE = {"jsonrpc": "2.0", "id": 1, "result": {}}

pytestmark = pytest.mark.xdist_group("mcp over http")


class Post(NamedTuple):
    """A header is left out if its field is None."""

    body: Any
    version: str | None = VERSION
    method: str | None = None
    name: str | None = None

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()

    @property
    def fields(self) -> dict[str, str]:
        headers = {"MCP-Protocol-Version": self.version, "Mcp-Method": self.method, "Mcp-Name": self.name}
        sent = {name: value for name, value in headers.items() if value is not None}
        return {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **sent}


POSTS = [
    # With a handshake
    Post(message("initialize", **HELLO), None),
    Post(message("initialize"), None),
    Post(message("notifications/initialized", None), EARLIER),
    Post(message("ping"), EARLIER),
    Post({**message("ping"), "params": None}, EARLIER),
    Post({**message("tools/list"), "params": None}, EARLIER),
    Post(message("tools/list"), None),
    Post(message("tools/list"), EARLIER),
    Post(message("tools/call", **CALL), EARLIER),
    Post(message("tools/call", name=7), EARLIER),
    Post(message("tools/call", name="nothing"), EARLIER),
    Post(message("no/such/method"), EARLIER),
    Post(RESPONSE, EARLIER),
    Post(b"{", EARLIER),
    # Without one
    Post(message("server/discover", _meta=META), method="server/discover"),
    Post(message("tools/list", _meta=META), method="tools/list"),
    Post(message("tools/call", **CALL, _meta=META), method="tools/call", name="get_job"),
    Post(message("tools/call", **CALL, _meta=META), method="tools/call", name="=?base64?Z2V0X2pvYg==?="),
    Post(message("tools/call", **CALL, _meta=META), method="tools/call", name="=?base64?Z2V0X2pvYg?="),
    Post(message("tools/call", **CALL, _meta=META), method="tools/call", name="claim_job"),
    Post(message("tools/call", **CALL, _meta=META), method="tools/call"),
    Post(message("tools/call", name="nothing", _meta=META), method="tools/call", name="nothing"),
    Post(message("tools/list", _meta=META), method="tools/call"),
    Post(message("tools/list", _meta=META)),
    Post(message("tools/list"), method="tools/list"),
    Post(message("tools/list", _meta=7), method="tools/list"),
    Post(message("tools/list", _meta={VERSION_KEY: VERSION}), method="tools/list"),
    Post(message("tools/list", _meta={**META, VERSION_KEY: 7}), method="tools/list"),
    Post(message("tools/list", _meta={**META, VERSION_KEY: "1900-01-01"}), "1900-01-01", "tools/list"),
    Post(message("tools/list", _meta={**META, VERSION_KEY: "1900-01-01"}), method="tools/list"),
    Post(message("ping", _meta=META), method="ping"),
    Post(message("no/such/method", _meta=META), method="no/such/method"),
    Post(message("notifications/initialized", None)),
    Post(message("notifications/initialized", None), "1900-01-01"),
    Post(RESPONSE),
    Post({"jsonrpc": "2.0", "id": None, "method": "ping"}),
    Post(b"{"),
    Post(b"[]"),
    Post(b"{}"),
]


class Response(NamedTuple):
    status: int
    request_id: Any
    code: int | None

    @classmethod
    def of(cls, status: int, content: bytes) -> "Response":
        document = json.loads(content) if content else {}
        return cls(int(status), document.get("id"), document.get("error", {}).get("code"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("home")) as process:
        yield process
        process.check_has_not_failed()


async def theirs(posts: list[Post]) -> list[Response]:
    import httpx2  # noqa: PLC0415  # these take long to import
    from mcp import MCPError, types  # noqa: PLC0415
    from mcp.server import Server  # noqa: PLC0415
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415

    async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate({"tools": [*map(described, TOOLS)]})

    async def call_tool(_context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in {tool.name for tool in TOOLS}:
            raise MCPError(code=types.INVALID_PARAMS, message="there is no such tool")
        return types.CallToolResult(content=[])

    server: Server[Any] = Server("octostore", on_list_tools=list_tools, on_call_tool=call_tool)
    manager = StreamableHTTPSessionManager(server, stateless=True, json_response=True)
    responses = []
    transport = httpx2.ASGITransport(app=manager.handle_request)
    async with manager.run(), httpx2.AsyncClient(transport=transport) as client:
        for post in posts:
            response = await client.post("http://localhost/mcp", content=post.content, headers=post.fields)
            responses.append(Response.of(response.status_code, response.content))
    return responses


def test_both_servers_respond_the_same(loop: Loop, server: ServerProcess) -> None:
    for post, their in zip(POSTS, loop.run(theirs(POSTS)), strict=True):
        response = server.request("POST", "/mcp", raw=post.content, headers=post.fields)
        assert Response.of(response.status, response.body) == their, post
