"""Agents: the tools of `octostore mcp`, over HTTP."""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from octostore.core.model import Scope
from octostore.server.auth import ALL_SCOPES
from octostore.server.calls import Call
from octostore.server.http import Headers, Request, Response
from octostore.server.router import Route

TAG = "agents"
METADATA_PATH = "/.well-known/oauth-protected-resource/mcp"
_HOST = re.compile(r"[\w.:\[\]-]{1,255}", re.ASCII)


class RpcMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message of MCP, which is one of JSON-RPC 2.0. Without an `id` it is a notification."""

    jsonrpc: Annotated[Literal["2.0"], Meta(description="Always `2.0`.")]
    method: Annotated[str, Meta(description="What is asked for.", examples=["tools/call"])]
    id: Annotated[str | int, Meta(description="Yours; the answer has the same.")] | msgspec.UnsetType = msgspec.UNSET
    params: Annotated[dict[str, Any] | None, Meta(description="What the method takes.")] = None


class RpcAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`result`, or an `error` with a `code` of JSON-RPC."""

    jsonrpc: Literal["2.0"]
    id: str | int | None = None
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ProtectedResource(msgspec.Struct, kw_only=True):
    """What RFC 9728 says of a resource. Tokens come from an operator, so there is no authorization server."""

    resource: Annotated[str, Meta(description="The URL that a token is for.")]
    resource_name: str
    resource_documentation: str
    scopes_supported: list[Scope]
    bearer_methods_supported: list[Literal["header"]]


async def mcp(call: Call) -> Response:
    tools = await call.services.tools.get()
    return await tools.answer(call)


async def resource(call: Call) -> Response:
    base = _base_url(call.request) or "http://localhost"
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
    """Clients of MCP look there for what a token has to be."""
    base = _base_url(request)
    if base is None:
        return headers
    where = f'resource_metadata="{base}{METADATA_PATH}"'.encode()
    return [
        (name, (b"%b, %b" if b" " in value else b"%b %b") % (value, where) if name == b"www-authenticate" else value)
        for name, value in headers
    ]


def _base_url(request: Request) -> str | None:
    """As the client knows us; None where that cannot be repeated to it."""
    host = request.header(b"host") or ""
    return f"{request.scheme}://{host}{request.base_path}" if _HOST.fullmatch(host) else None


_METADATA: dict[str, Any] = {
    "handler": resource,
    "summary": "Which tokens /mcp takes (RFC 9728)",
    "responses": {200: ProtectedResource},
    "example": {
        "response": {
            "resource": "http://127.0.0.1:3000/mcp",
            "resource_name": "OctoStore",
            "resource_documentation": "http://127.0.0.1:3000/docs",
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
        summary="One message of the Model Context Protocol, and its answer",
        description=(
            "Streamable HTTP of the protocol 2026-07-28, without state: each message is answered with one JSON "
            "document, by any server on the same store. Clients of earlier versions are served, too. Which tools there "
            "are depends on the token."
        ),
        responses={200: RpcAnswer, 202: None, 400: RpcAnswer, 404: RpcAnswer},
        codes={404: ("no_such_route",)},
        example={
            "body": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            "response": {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}},
        },
    ),
    Route.for_operation("mcp_resource", **_METADATA),
    Route.for_operation("resource", **_METADATA),
]
