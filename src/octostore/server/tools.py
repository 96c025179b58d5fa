"""What answers at `/mcp`. A layer above brings it, and it is imported with the first request: few servers need it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from octostore.server.http import Response
from octostore.server.refusals import no_route


class Tools(Protocol):
    async def answer(self, call: Any) -> Response:
        """To a `Call`. Raises `ClientDisconnected`, and then nothing was claimed on its account."""


LoadTools: TypeAlias = Callable[[], Tools]
"""Imports what it takes. Called once, in a thread."""


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
