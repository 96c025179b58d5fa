"""The handler for `/mcp`. It comes from a layer above, and is imported on the first request: few servers need it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from octostore.server.http import Response
from octostore.server.refusals import no_route


class Tools(Protocol):
    async def handle(self, call: Any) -> Response:
        """Handle a `Call`. If it raises `ClientDisconnected`, nothing stays claimed."""


LoadTools: TypeAlias = Callable[[], Tools]
"""Imports the tools. Called once, in a thread."""


class LazyTools:
    def __init__(self, load: LoadTools | None, in_thread: Callable[[LoadTools], Awaitable[Tools]]) -> None:
        self._load = load
        self._in_thread = in_thread
        self._loading: asyncio.Future[Tools] | None = None

    async def get(self) -> Tools:
        if self._load is None:
            raise no_route("/mcp")
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._in_thread(self._load))
        return await asyncio.shield(self._loading)
