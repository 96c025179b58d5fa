"""Our server responds as the official SDK's server would to the same requests."""

from typing import Any

import pytest

from octostore import connect_async
from octostore.mcp.claims import Claims
from octostore.mcp.connection import Agent, Connection
from octostore.mcp.lines import INVALID_PARAMS, METHOD_NOT_FOUND, Message, Refused
from octostore.mcp.protocol import CAPABILITIES_KEY, UNSUPPORTED_VERSION, VERSION_KEY, WITH_HANDSHAKE, ToolProtocol
from octostore.mcp.schemas import described
from octostore.mcp.sessions import Sessions
from octostore.mcp.texts import INSTRUCTIONS
from octostore.mcp.tools import OPERATOR_TOOLS, TOOLS
from tests.support.async_as_sync import Loop

Request = tuple[str, dict[str, Any]]
META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
CALL = {"name": "get_job", "arguments": {"job_id": "job"}}
HELLO = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
HANDSHAKES: list[Request] = [
    ("initialize", {**HELLO, "protocolVersion": version}) for version in (*WITH_HANDSHAKE, "2099-01-01")
]
WITH: list[Request] = [
    ("ping", {}),
    ("tools/list", {}),
    ("tools/call", CALL),
    ("tools/call", {"name": "my_claims"}),
    ("tools/call", {"name": "claim_job", "arguments": {"job_id": "no blanks"}}),
    ("tools/call", {}),
    ("tools/call", {"name": "my_claims", "arguments": []}),
    ("tools/call", {"name": "no-such-tool"}),
    ("resources/list", {}),
    ("logging/setLevel", {"level": "info"}),
    ("server/discover", {}),
]
WITHOUT: list[Request] = [
    ("server/discover", {"_meta": META}),
    ("tools/list", {"_meta": META}),
    ("tools/call", {**CALL, "_meta": META}),
    ("tools/call", {"name": "claim_job", "arguments": {}, "_meta": META}),
    ("tools/call", {"_meta": META}),
    ("ping", {"_meta": META}),
    ("prompts/list", {"_meta": META}),
    ("tools/list", {"_meta": {**META, VERSION_KEY: "2099-01-01"}}),
    ("tools/list", {"_meta": {VERSION_KEY: "2026-07-28"}}),
    ("tools/list", {"_meta": {**META, VERSION_KEY: 7}}),
]


class Sides:
    """Our server and the SDK's, with the same tools for the same agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._protocol = ToolProtocol([*TOOLS, *OPERATOR_TOOLS], lambda _text: None)

    async def ours(self, request: Request) -> Any:
        async def notify(_method: str, _params: dict[str, Any]) -> None: ...

        try:
            return await self._protocol.handle(Message(1, *request), self._agent, notify)
        except Refused as refused:
            return {"code": refused.code, **({"data": refused.data} if refused.code == UNSUPPORTED_VERSION else {})}

    async def theirs(self, requests: list[Request]) -> list[Any]:
        import anyio  # noqa: PLC0415  # these take long to import
        from mcp import types  # noqa: PLC0415
        from mcp.shared.message import SessionMessage  # noqa: PLC0415

        server = self._sdk_server()
        incoming, reading = anyio.create_memory_object_stream[Any](len(requests))
        writing, outgoing = anyio.create_memory_object_stream[Any](len(requests))
        responses = []
        async with incoming, reading, writing, outgoing, anyio.create_task_group() as group:
            group.start_soon(server.run, reading, writing, server.create_initialization_options())
            for number, (method, params) in enumerate(requests):
                message = types.JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
                await incoming.send(SessionMessage(message))
                responses.append((await outgoing.receive()).message.model_dump(by_alias=True, exclude_none=True))
            group.cancel_scope.cancel()
        return [response.get("result") or _error(response) for response in responses]

    def _sdk_server(self) -> Any:
        from mcp import MCPError, types  # noqa: PLC0415
        from mcp.server import Server  # noqa: PLC0415

        from octostore._version import __version__  # noqa: PLC0415

        async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
            return types.ListToolsResult.model_validate({"tools": [*map(described, [*TOOLS, *OPERATOR_TOOLS])]})

        async def call_tool(_context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
            result = await self.ours(("tools/call", {"name": params.name, "arguments": params.arguments or {}}))
            if "code" in result:
                raise MCPError(code=result["code"], message="")
            return types.CallToolResult.model_validate(result)

        return Server(
            "octostore",
            title="OctoStore",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )


def _error(response: dict[str, Any]) -> dict[str, Any]:
    error = response.get("error")
    if error is None:
        return {}
    return {name: error[name] for name in ("code", "data") if name == "code" or error["code"] == UNSUPPORTED_VERSION}


def compare(loop: Loop, *conversations: list[Request]) -> None:
    async def run() -> None:
        claims = Claims(lambda _text: None)
        connection = Connection("memory:")
        agent = Agent(connection, claims, Sessions(claims, lambda _text: None), "agent")
        sides = Sides(agent)
        for requests in conversations:
            ours = [await sides.ours(request) for request in requests]
            for request, our, their in zip(requests, ours, await sides.theirs(requests), strict=True):
                assert our == their, request
        await connection.close()

    loop.run(run())


def test_with_a_handshake(loop: Loop) -> None:
    compare(loop, *([hello] for hello in HANDSHAKES), [HANDSHAKES[-2], *WITH])


def test_without_a_handshake(loop: Loop) -> None:
    compare(loop, WITHOUT)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("initialize", {}, INVALID_PARAMS),
        ("tools/call", {"name": 7}, INVALID_PARAMS),
        ("no/such/method", {}, METHOD_NOT_FOUND),
        ("no/such/method", {"_meta": META}, METHOD_NOT_FOUND),
        ("tools/list", {"_meta": {**META, VERSION_KEY: "1"}}, UNSUPPORTED_VERSION),
    ],
)
def test_what_is_refused(loop: Loop, method: str, params: dict[str, Any], code: int) -> None:
    async def ask() -> Any:
        claims = Claims(lambda _text: None)
        async with await connect_async("memory:"):
            agent = Agent(Connection("memory:"), claims, Sessions(claims, lambda _text: None), None)
            return await Sides(agent).ours((method, params))

    assert loop.run(ask())["code"] == code
