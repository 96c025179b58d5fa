"""The Model Context Protocol, as far as tools need it: a request in, a result out, without transport or SDK.

Versions up to 2025-11-25 begin with `initialize`. Since 2026-07-28 there is no handshake: each request names its
version in `_meta`, and results carry more metadata. Nothing is remembered between requests, so one server serves both.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from octostore._version import __version__
from octostore.mcp import texts
from octostore.mcp.calling import call_tool
from octostore.mcp.lines import INVALID_PARAMS, METHOD_NOT_FOUND, Message, Refused
from octostore.mcp.own import Caller, Report
from octostore.mcp.schemas import described
from octostore.mcp.tools import Tool

WITH_HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
WITHOUT_HANDSHAKE = ("2026-07-28",)
UNSUPPORTED_VERSION = -32_022
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SERVER = {"name": "octostore", "title": "OctoStore", "version": __version__}
CAPABILITIES = {"tools": {"listChanged": False}}
NOT_CACHED = {"cacheScope": "private", "ttlMs": 0}

Notify = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Sends a notification with this method and these parameters."""


class ToolProtocol:
    """Handles requests for a table of tools, on behalf of an agent."""

    def __init__(self, tools: Sequence[Tool], report: Report, instructions: str = texts.INSTRUCTIONS) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._report = report
        self._instructions = instructions

    async def handle(self, request: Message, caller: Caller, notify: Notify) -> dict[str, Any]:
        """Raises `Refused`, with JSON-RPC's code, for an invalid request."""
        method, params = request.method, request.params
        meta = params.get("_meta")
        if method == "initialize" or not isinstance(meta, dict) or VERSION_KEY not in meta:
            return await self._handle_with_handshake(method, params, caller, notify)
        _check_envelope(meta)
        result = await self._handle_without_handshake(method, params, caller, notify)
        return {**result, "resultType": "complete", "_meta": {SERVER_KEY: SERVER}}

    async def _handle_with_handshake(
        self, method: str, params: dict[str, Any], caller: Caller, notify: Notify
    ) -> dict[str, Any]:
        match method:
            case "initialize":
                return _initialized(params, self._instructions)
            case "ping":
                return {}
            case "tools/list":
                return self._listed()
            case "tools/call":
                return await self._called(params, caller, notify)
        raise _no_method(method)

    async def _handle_without_handshake(
        self, method: str, params: dict[str, Any], caller: Caller, notify: Notify
    ) -> dict[str, Any]:
        match method:
            case "server/discover":
                said = {"supportedVersions": list(WITHOUT_HANDSHAKE), "capabilities": CAPABILITIES}
                return {**said, "instructions": self._instructions, **NOT_CACHED}
            case "tools/list":
                return {**self._listed(), **NOT_CACHED}
            case "tools/call":
                return await self._called(params, caller, notify)
        raise _no_method(method)

    def _listed(self) -> dict[str, Any]:
        return {"tools": [described(tool) for tool in self._tools.values()]}

    async def _called(self, params: dict[str, Any], caller: Caller, notify: Notify) -> dict[str, Any]:
        name, given = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(given, dict | None):
            raise Refused(INVALID_PARAMS, "tools/call takes a `name`, which is text, and `arguments`, an object")
        tool = self._tools.get(name)
        if tool is None:
            raise Refused(INVALID_PARAMS, f"there is no tool {name!r}; the tools are {', '.join(self._tools)}")
        called = await call_tool(tool, caller, given or {}, _progress_of(params, notify), self._report)
        return {"content": [{"type": "text", "text": text} for text in called.texts], "isError": called.is_error}


def _initialized(params: dict[str, Any], instructions: str) -> dict[str, Any]:
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise Refused(INVALID_PARAMS, "initialize takes a `protocolVersion`, which is text")
    return {
        "protocolVersion": wanted if wanted in WITH_HANDSHAKE else WITH_HANDSHAKE[-1],
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER,
        "instructions": instructions,
    }


def _check_envelope(meta: dict[str, Any]) -> None:
    wanted = meta[VERSION_KEY]
    if not isinstance(wanted, str) or CAPABILITIES_KEY not in meta:
        raise Refused(INVALID_PARAMS, f"`_meta` must have {VERSION_KEY} (text) and {CAPABILITIES_KEY}")
    if wanted not in WITHOUT_HANDSHAKE:
        data = {"supported": list(WITHOUT_HANDSHAKE), "requested": wanted}
        raise Refused(UNSUPPORTED_VERSION, "Unsupported protocol version", data=data)


def _progress_of(params: dict[str, Any], notify: Notify) -> Callable[[float, float, str], Awaitable[None]]:
    """Reports a call's progress to clients that sent a token for it."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None

    async def report_progress(progress: float, total: float, message: str) -> None:
        if isinstance(token, str | int):
            sent = {"progressToken": token, "progress": progress, "total": total, "message": message}
            await notify("notifications/progress", sent)

    return report_progress


def _no_method(method: str) -> Refused:
    return Refused(METHOD_NOT_FOUND, "Method not found", data=method)
