"""MCP over HTTP, without state: a message arrives, and its reply is one JSON document."""

from functools import cache
from typing import Any

from octostore.client.async_store import AsyncOctoStore
from octostore.core.model import Scope
from octostore.mcp.http.claims import HandledClaims
from octostore.mcp.http.messages import OK, error_response, read_message, version_of
from octostore.mcp.http.port import ServedPort
from octostore.mcp.http.sessions import HandledSessions
from octostore.mcp.http.tools import tools_for
from octostore.mcp.lines import Refused
from octostore.mcp.protocol import ToolProtocol
from octostore.mcp.texts import INSTRUCTIONS_OVER_HTTP
from octostore.server.calls import Call
from octostore.server.http import ClientDisconnected, Response
from octostore.server.log import log

ACCEPTED = 202


class AgentOfToken:
    """The agent behind one request, as far as its token identifies it."""

    def __init__(self, call: Call) -> None:
        self.port = ServedPort(call)
        self.claims = HandledClaims(call, self.port)
        self.sessions = HandledSessions(call, self.port, self.claims)
        self.owner = call.principal.owner

    async def store(self) -> AsyncOctoStore:
        return AsyncOctoStore(self.port)

    def notices(self) -> list[str]:
        return self.claims.notices()


class HttpTools:
    """A server's `/mcp`."""

    async def handle(self, call: Call) -> Response:
        agent = AgentOfToken(call)
        try:
            response = await self._handle_message(call, agent)
        except Refused as refused:
            response = error_response(refused)
        if call.request.is_closed:
            agent.port.undo()
            raise ClientDisconnected
        return response

    async def _handle_message(self, call: Call, agent: AgentOfToken) -> Response:
        message = read_message(call.request, call.request.complete_body(call.services.settings.max_body_bytes))
        if message is None or message.request_id is None:
            return Response(b"", ACCEPTED, b"text/plain")
        try:
            result = await _protocol_for(call.principal.scopes).handle(message, agent, _drop)
        except Refused as refused:
            refused.request_id = message.request_id
            # To clients of versions with a handshake, a 404 means that their session has ended.
            return error_response(refused, OK if version_of(message) is None else None)
        return Response({"jsonrpc": "2.0", "id": message.request_id, "result": result})


@cache
def _protocol_for(scopes: frozenset[Scope]) -> ToolProtocol:
    return ToolProtocol(tools_for(scopes), _report, INSTRUCTIONS_OVER_HTTP)


def _report(problem: str) -> None:
    log.error("%s", problem, extra={"event": "internal_error"})


async def _drop(_method: str, _params: dict[str, Any]) -> None:
    """A single document has no room for notifications."""
