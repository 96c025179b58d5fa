"""Ports that create spans. Every other call goes straight to the wrapped port."""

from collections.abc import Sequence
from typing import Any

from octostore.client.port import AsyncPort, Port
from octostore.client.spans import Spans
from octostore.core.commands import Command, R_co


class TracedPort:
    def __init__(self, port: Port, spans: Spans) -> None:
        self._port = port
        self.spans = spans

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        call = self.spans.start_call([command])
        if call is None:
            return self._port.execute(command, wait)
        with call:
            reply: R_co = self._port.execute(call.commands[0], wait)
        call.end([reply])
        return reply

    def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        call = self.spans.start_call(commands)
        if call is None:
            return self._port.execute_all(commands, atomic=atomic)
        with call:
            replies = self._port.execute_all(call.commands, atomic=atomic)
        call.end(replies)
        return replies


class AsyncTracedPort:
    def __init__(self, port: AsyncPort, spans: Spans) -> None:
        self._port = port
        self.blocking = TracedPort(port.blocking, spans)
        self.spans = spans

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    async def execute(self, command: Command[R_co], wait: float = 0) -> R_co:
        call = self.spans.start_call([command])
        if call is None:
            return await self._port.execute(command, wait)
        with call:
            reply: R_co = await self._port.execute(call.commands[0], wait)
        call.end([reply])
        return reply

    async def execute_all(self, commands: Sequence[Command[Any]], *, atomic: bool = True) -> list[Any]:
        call = self.spans.start_call(commands)
        if call is None:
            return await self._port.execute_all(commands, atomic=atomic)
        with call:
            replies = await self._port.execute_all(call.commands, atomic=atomic)
        call.end(replies)
        return replies
