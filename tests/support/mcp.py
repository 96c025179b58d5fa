"""`octostore mcp` as an agent's client starts it: a process of its own, talked to by the official SDK."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from mcp import Client, StdioServerParameters, Tool
from mcp.client.stdio import stdio_client
from mcp.shared.dispatcher import ProgressFnT

from tests.support.async_as_sync import Loop
from tests.support.processes import PATIENCE_SECONDS, ROOT, until

PROGRAM = (sys.executable, "-m", "octostore", "mcp")
SAY_WHO = 'echo $$ > "$0"; exec "$@"'
"""For a shell: its process is that of the server."""

Mode: TypeAlias = Literal["auto", "legacy"]
"""Which of the protocol's two ways to begin."""


class Answer(NamedTuple):
    is_error: bool
    document: Any
    text: str
    """In words."""
    more: list[str]
    """What else was said, behind the document."""

    @property
    def status(self) -> str:
        """The stable word for what it is."""
        word: str = self.document.get("code") or self.document.get("status")
        return word


class Agent:
    """One that has started its server; it hangs up when the block ends."""

    def __init__(
        self, loop: Loop, folder: Path, name: str, *arguments: str, env: Mapping[str, str], mode: Mode = "auto"
    ) -> None:
        self.name = name
        self.said: list[str] = []
        """Everything that the server has sent."""
        self._loop = loop
        self._mode = mode
        self._stderr = folder / f"{name}.stderr"
        self._pid = folder / f"{name}.pid"
        self._parameters = StdioServerParameters(
            command="sh",
            args=["-c", SAY_WHO, str(self._pid), *PROGRAM, *arguments],
            env={"PYTHONPATH": str(ROOT / "src"), "OCTOSTORE_OWNER": name, "no_proxy": "*", **env},
            cwd=folder,
        )
        self._ready: Future[Client] = Future()
        self._gone = asyncio.Event()
        self._living = loop.start(self._live())

    async def _live(self) -> None:
        """In one task from beginning to end, as the SDK wants it."""
        try:
            with self._stderr.open("w") as errors:
                async with Client(stdio_client(self._parameters, errors), mode=self._mode) as client:
                    self._ready.set_result(client)
                    await self._gone.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    @property
    def client(self) -> Client:
        return self._ready.result(PATIENCE_SECONDS)

    @property
    def pid(self) -> int:
        return int(self._pid.read_text())

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def call(self, tool: str, **arguments: Any) -> Answer:
        return self.start(tool, **arguments).result(PATIENCE_SECONDS)

    def start(self, tool: str, on_progress: ProgressFnT | None = None, **arguments: Any) -> "Future[Answer]":
        """To be waited for, or cancelled."""
        return self._loop.start(self._call(self.client, tool, arguments, on_progress))

    def tools(self) -> list[Tool]:
        listed = self._loop.run(self.client.list_tools())
        self.said.append(listed.model_dump_json())
        tools: list[Tool] = listed.tools
        return tools

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def until_gone(self) -> None:
        until(lambda: not Path(f"/proc/{self.pid}").exists())

    def leave(self) -> None:
        """Hang up, and wait for the server to end."""
        self._loop.soon(self._gone.set)
        self._living.result(PATIENCE_SECONDS)

    async def _call(
        self, client: Client, tool: str, arguments: dict[str, Any], on_progress: ProgressFnT | None
    ) -> Answer:
        result = await client.call_tool(tool, arguments, progress_callback=on_progress)
        self.said.append(result.model_dump_json())
        texts = [part.text for part in result.content if part.type == "text"]
        return Answer(result.is_error, result.structured_content, texts[0], texts[2:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if not self._living.done():
            self.leave()
