"""Served over stdin and stdout, which is how agents start their servers; everything else goes to stderr."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn, Self

from mcp.server.stdio import stdio_server

from octostore.core.errors import InvalidInput, Unreachable
from octostore.mcp.claims import Claims, Tell
from octostore.mcp.connection import Agent, Connection
from octostore.mcp.lines import messages
from octostore.mcp.server import ToolServer
from octostore.mcp.tools import TOOLS

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
UNWIND_SECONDS = 0.3
"""How long calls that are under way may take to give up, and the streams to close."""


def serve(url: str | None, owner: str | None, tell: Tell) -> NoReturn:
    """Until the client hangs up or a signal comes; then this process ends."""
    if sys.stdin is None:
        raise InvalidInput("stdin", "is closed; this is to be started by a client that speaks MCP")
    if sys.stdin.isatty():
        tell("this speaks MCP, and waits for a client on stdin; Ctrl-C ends it. `octostore mcp --help` says more")
    asyncio.run(_Session(url, owner, tell).run())


class _Session:
    def __init__(self, url: str | None, owner: str | None, tell: Tell) -> None:
        self._tell_anyone = tell
        self._connection = Connection(url)
        self._claims = Claims(self._tell)
        agent = Agent(self._connection, self._claims, owner)
        self._server = ToolServer(TOOLS, lambda _context: agent, self._tell).protocol_server()
        self._is_over = asyncio.Event()
        self._signal: int | None = None

    async def run(self) -> NoReturn:
        await self._open()
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self._end, number)
        talking = asyncio.create_task(self._talk())
        await self._is_over.wait()
        if self._signal is not None:
            talking.cancel()
        # Calls that are under way give up; what they have just claimed is given back.
        await asyncio.wait([talking], timeout=UNWIND_SECONDS)
        await self._claims.close()
        await self._connection.close()
        _check(talking)
        # All that matters is closed. Threads may still wait, for stdin or for a store that does not answer: nobody can
        # interrupt them, and Python would wait for them.
        os._exit(0 if self._signal is None else 128 + self._signal)

    async def _open(self) -> None:
        """So that a set-up that cannot work is told now, and one that cannot work yet is no reason to end."""
        try:
            await self._connection.store()
        except Unreachable as fault:
            self._tell(f"{fault}; tools will say so until it can be reached")

    async def _talk(self) -> None:
        """It is over before the streams are closed: after a signal, that takes until the client's next line."""
        try:
            nothing: Any = _Nothing()  # we read ourselves: the SDK drops what is no message without a word
            async with stdio_server(nothing) as (_, outgoing), messages(sys.stdin.buffer, outgoing) as incoming:
                try:
                    await self._server.run(incoming, outgoing, self._server.create_initialization_options())
                finally:
                    self._is_over.set()
        finally:
            self._is_over.set()

    def _end(self, number: int) -> None:
        self._signal = number
        self._is_over.set()

    def _tell(self, text: str) -> None:
        # A client that is gone does not read our remarks either, and there is more to do than that.
        with suppress(OSError):
            self._tell_anyone(text)


class _Nothing:
    """A file that has ended."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        raise StopAsyncIteration


def _check(talking: "asyncio.Task[None]") -> None:
    """Raise what went wrong, unless it is that nobody reads our answers any more."""
    if talking.done() and not talking.cancelled():
        try:
            talking.result()
        except* BrokenPipeError:
            pass
