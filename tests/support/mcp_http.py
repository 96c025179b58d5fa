"""An agent that uses a server's `/mcp` with the official SDK."""

import asyncio
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from tests.support.async_as_sync import Loop
from tests.support.mcp import Agent, Mode
from tests.support.server import ServerProcess

if TYPE_CHECKING:
    from mcp import Client


class HttpAgent(Agent):
    """Disconnects when the block ends."""

    def __init__(self, loop: Loop, server: ServerProcess, token: str, mode: Mode = "auto") -> None:
        self.said = []
        self._loop = loop
        self._mode = mode
        self._url = f"{server.url}/mcp"
        self._token = token
        self._ready = Future()
        self._gone = asyncio.Event()
        self._living = loop.start(self._live())

    async def _connect(self, at_end: AsyncExitStack) -> "Client":
        import httpx2  # noqa: PLC0415
        from mcp import Client  # noqa: PLC0415
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

        fields = {"Authorization": f"Bearer {self._token}"}
        session = await at_end.enter_async_context(httpx2.AsyncClient(headers=fields, trust_env=False, timeout=60))
        return await at_end.enter_async_context(
            Client(streamable_http_client(self._url, http_client=session), mode=self._mode)
        )


def message(method: str, request_id: int | str | None = 1, **params: Any) -> dict[str, Any]:
    """A message as sent by clients of protocol versions with a handshake."""
    return {
        "jsonrpc": "2.0",
        "method": method,
        "params": params,
        **({} if request_id is None else {"id": request_id}),
    }


def calling(tool: str, **arguments: Any) -> dict[str, Any]:
    return message("tools/call", name=tool, arguments=arguments)
