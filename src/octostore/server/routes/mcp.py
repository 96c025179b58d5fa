"""Agents: the tools of `octostore mcp` over HTTP."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from octostore.core.model import Scope
from octostore.server.auth import ALL_SCOPES
from octostore.server.calls import Call
from octostore.server.examples import DEFAULT_URL
from octostore.server.http import Headers, Request, Response
from octostore.server.router import Route

TAG = "agents"
METADATA_PATH = "/.well-known/oauth-protected-resource/mcp"


class RpcMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An MCP message, in JSON-RPC 2.0. Without an `id` it is a notification."""

    jsonrpc: Annotated[Literal["2.0"], Meta(description="Always `2.0`.")]
    method: Annotated[str, Meta(description="The method.", examples=["tools/call"])]
    id: (
        Annotated[str | int, Meta(description="Your id for the message; the response has the same id.")]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    params: Annotated[dict[str, Any] | None, Meta(description="The method's parameters.")] = None


class RpcResponse(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A `result`, or an `error` with a JSON-RPC `code`."""

    jsonrpc: Literal["2.0"]
    id: str | int | None = None
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ProtectedResource(msgspec.Struct, kw_only=True):
    """Protected resource metadata (RFC 9728). Tokens come from an operator, so there is no authorization server."""

    resource: Annotated[str, Meta(description="The URL the token is for.")]
    resource_name: str
    resource_documentation: str
    scopes_supported: list[Scope]
    bearer_methods_supported: list[Literal["header"]]


async def mcp(call: Call) -> Response:
    tools = await call.services.tools.get()
    return await tools.handle(call)


async def resource(call: Call) -> Response:
    base = call.request.base_url or "http://localhost"
    return Response(
        ProtectedResource(
            resource=f"{base}/mcp",
            resource_name="OctoStore",
            resource_documentation=f"{base}/docs",
            scopes_supported=list(ALL_SCOPES),
            bearer_methods_supported=["header"],
        )
    )


def challenge(request: Request, headers: list[tuple[bytes, bytes]]) -> Headers:
    """Tell MCP clients where to find what kind of token they need."""
    base = request.base_url
    if base is None:
        return headers
    where = f'resource_metadata="{base}{METADATA_PATH}"'.encode()
    return [
        (name, (b"%b, %b" if b" " in value else b"%b %b") % (value, where) if name == b"www-authenticate" else value)
        for name, value in headers
    ]


_METADATA: dict[str, Any] = {
    "handler": resource,
    "summary": "Find out which kind of token /mcp accepts (RFC 9728)",
    "responses": {200: ProtectedResource},
    "example": {
        "response": {
            "resource": f"{DEFAULT_URL}/mcp",
            "resource_name": "OctoStore",
            "resource_documentation": f"{DEFAULT_URL}/docs",
            "scopes_supported": ["read", "claim", "admin"],
            "bearer_methods_supported": ["header"],
        }
    },
}
ROUTES = [
    Route.for_operation(
        "mcp",
        handler=mcp,
        challenge=challenge,
        reads=RpcMessage,
        summary="Send a Model Context Protocol message",
        description=(
            "Stateless Streamable HTTP, protocol version 2026-07-28: each request gets one JSON response, a "
            "notification gets 202, and each message may go to any server on the store. Clients of earlier versions "
            "work too. The available tools depend on the token."
        ),
        responses={200: RpcResponse, 202: None, 400: RpcResponse, 404: RpcResponse},
        codes={404: ("no_such_route",)},
        example={
            "body": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            "response": {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}},
        },
    ),
    Route.for_operation("mcp_resource", **_METADATA),
    Route.for_operation("resource", **_METADATA),
]
