"""`octostore mcp` in its own process, started and used by the official SDK.

The SDK is imported on first use, because that is slow and most test processes do not need it.
"""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias
from unittest.mock import patch

from tests.support.async_as_sync import Loop
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.starting import PROGRAM, read_at_start, start

if TYPE_CHECKING:
    from mcp import Client, Tool
    from mcp.shared.dispatcher import ProgressFnT

Mode: TypeAlias = Literal["auto", "legacy"]
"""Which of the protocol's two handshakes to use."""


class ToolReply(NamedTuple):
    is_error: bool
    document: Any
    text: str
    """The document, as sent."""
    more: list[str]
    """Text after the document."""

    @property
    def next(self) -> str:
        """What to do next."""
        advice: str = self.document.get("details" if self.is_error else "next", "")
        return advice

    @property
    def status(self) -> str:
        """The `status` or error code."""
        word: str = self.document.get("code") or self.document.get("status")
        return word


class Agent:
    """An agent that starts its server, and disconnects when the block ends."""

    _starting = asyncio.Lock()
    pid: int

    def __init__(
        self,
        loop: Loop,
        folder: Path,
        name: str,
        *arguments: str,
        env: Mapping[str, str],
        mode: Mode = "auto",
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.name = name
        self.said: list[str] = []
        """Everything the server has sent."""
        self._loop = loop
        self._mode = mode
        self._folder = folder
        self._stderr = folder / f"{name}.stderr"
        self._command = [*program, "mcp", *arguments]
        self._env = {**read_at_start(os.environ), "OCTOSTORE_OWNER": name, "no_proxy": "*", **env}
        self._ready: Future[Client] = Future()
        self._gone = asyncio.Event()
        self._living = loop.start(self._live())

    async def _live(self) -> None:
        """Run in one task from beginning to end, as the SDK requires."""
        try:
            async with AsyncExitStack() as at_end:
                self._ready.set_result(await self._connect(at_end))
                await self._gone.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    async def _connect(self, at_end: AsyncExitStack) -> "Client":
        from mcp import Client  # noqa: PLC0415
        from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415

        command, *arguments = self._command
        parameters = StdioServerParameters(command=command, args=arguments, env=self._env, cwd=self._folder)
        errors = at_end.enter_context(self._stderr.open("w"))
        async with self._starting:
            with patch.object(subprocess, "Popen", self._start):
                return await at_end.enter_async_context(Client(stdio_client(parameters, errors), mode=self._mode))

    def _start(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        process = start(command, **options)
        self.pid = process.pid
        return process

    @property
    def client(self) -> "Client":
        return self._ready.result(4 * PATIENCE_SECONDS)  # importing the SDK is slow on a busy machine

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def call(self, tool: str, **arguments: Any) -> ToolReply:
        return self.start(tool, **arguments).result(PATIENCE_SECONDS)

    def start(self, tool: str, on_progress: "ProgressFnT | None" = None, **arguments: Any) -> "Future[ToolReply]":
        """Start it; the caller waits or cancels."""
        return self._loop.start(self._call(self.client, tool, arguments, on_progress))

    def tools(self) -> "list[Tool]":
        listed = self._loop.run(self.client.list_tools())
        self.said.append(listed.model_dump_json(by_alias=True, exclude_none=True))
        tools: list[Tool] = listed.tools
        return tools

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def until_gone(self) -> None:
        until(lambda: not Path(f"/proc/{self.pid}").exists())

    def leave(self) -> None:
        """Disconnect, and wait for the server to end."""
        self._loop.soon(self._gone.set)
        self._living.result(PATIENCE_SECONDS)

    async def _call(
        self, client: "Client", tool: str, arguments: dict[str, Any], on_progress: "ProgressFnT | None"
    ) -> ToolReply:
        result = await client.call_tool(tool, arguments, progress_callback=on_progress)
        self.said.append(result.model_dump_json())
        texts = [part.text for part in result.content if part.type == "text"]
        assert result.structured_content is None, "some clients show the model only this"
        return ToolReply(result.is_error, json.loads(texts[0]), texts[0], texts[1:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if not self._living.done():
            self.leave()
