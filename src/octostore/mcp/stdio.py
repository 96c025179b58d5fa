"""Serve over stdin and stdout, which is how agents start their servers; everything else goes to stderr."""

import asyncio
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple, NoReturn

from octostore.client.signals import SIGNALLED
from octostore.core.errors import InvalidInput, Unreachable
from octostore.mcp.claims import Claims
from octostore.mcp.connection import Agent, Connection
from octostore.mcp.lines import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Message,
    Refused,
    error_line,
    message_of,
    next_line,
    notification_line,
    result_line,
)
from octostore.mcp.own import NotSetUp, Report
from octostore.mcp.protocol import ToolProtocol
from octostore.mcp.sessions import Sessions
from octostore.mcp.silence import Silence, silence_left
from octostore.mcp.tools import tools_for
from octostore.stores.clock import boottime
from octostore.wire.errors import error_kind

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FINISH_SECONDS, UNWIND_SECONDS = 1.0, 0.2
"""The time that calls without `wait` get to finish after the client hangs up, and that all calls then get to stop."""
OPEN_SECONDS = 10.0
"""How long to wait for the store to open if the client hangs up immediately, to report a setup that cannot work."""
LOOK_AGAIN_SECONDS, RELEASE_AGAIN_SECONDS = 30.0, 5.0
"""The longest time between checks, as the machine may sleep, and before a retry, as the store may be unreachable."""
CROSSING_SECONDS = 1.0
"""How late a cancellation may come: a client that cancels while the result is on its way drops the result."""
CALLS_MAX = 200
"""The maximum number of requests a client may have in progress at once."""
TOO_MANY = -32_000
"""From the range JSON-RPC reserves for servers."""
BAD_SETUP = error_kind(InvalidInput.code).exit_code


class Settings(NamedTuple):
    url: str | None
    owner: str | None
    is_operator: bool
    max_silence: float | None
    """None: an agent may be silent forever."""


def serve(settings: Settings, report: Report) -> NoReturn:
    """Until the client hangs up or a signal arrives; then this process ends."""
    for name, stream in (("stdin", sys.stdin), ("stdout", sys.stdout)):
        if stream is None:
            raise InvalidInput(name, "is closed; an MCP client must start this command")
    if sys.stdin.isatty():
        report("waiting for an MCP client on stdin; press Ctrl-C to stop. See `octostore mcp --help`")
    asyncio.run(_Session(settings, report).run())


class _Session:
    def __init__(self, settings: Settings, report: Report) -> None:
        self._print = report
        self._connection = Connection(settings.url)
        claims = Claims(self._report)
        self._agent = Agent(self._connection, claims, Sessions(claims, self._report), settings.owner)
        self._protocol = ToolProtocol(tools_for(is_operator=settings.is_operator), self._report)
        self._wire = Wire()
        self._is_over = asyncio.Event()
        self._calls: dict[str | int, _Call] = {}
        self._finished: dict[str | int, _Call] = {}
        """Calls whose cancellation may still be on its way."""
        self._undoing: set[asyncio.Task[None]] = set()
        self._under_way = 0
        """The number of calls without a result. A call whose result is unread does not count: the client may hang."""
        self._max_silence = settings.max_silence
        self._heard_at = boottime()
        """When the agent's last tool call ended; before the first one, when this server started."""
        self._signal: int | None = None
        self._is_badly_set_up = False
        """Whether the settings could not work when this server started."""

    async def run(self) -> NoReturn:
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self._end, number)
        opening, talking, watching = map(asyncio.create_task, (self._open(), self._talk(), self._watch_silence()))
        talking.add_done_callback(lambda _: self._is_over.set())
        await self._is_over.wait()
        if self._signal is None:
            await asyncio.wait([opening], timeout=OPEN_SECONDS)
            # A claim cancelled halfway may have succeeded, and there is no time to find out.
            soon_over = [call.task for call in self._calls.values() if not call.waits]
            await asyncio.wait([opening, *soon_over], timeout=FINISH_SECONDS)
        under_way = [opening, talking, watching, *(call.task for call in self._calls.values())]
        for task in under_way:
            task.cancel()
        await asyncio.wait(under_way, timeout=UNWIND_SECONDS)
        await asyncio.gather(self._agent.close(), self._wire.drain())
        for task in (opening, talking, watching):
            if task.done() and not task.cancelled():
                task.result()
        # Everything that matters is closed. Threads may still wait for stdin, or for a store that does not respond;
        # they cannot be interrupted, and Python would wait for them.
        os._exit(self._exit_code())

    def _exit_code(self) -> int:
        if self._signal is not None:
            return SIGNALLED + self._signal
        return BAD_SETUP if self._is_badly_set_up and not self._connection.is_open else 0

    async def _open(self) -> None:
        """Report a setup that does not work. The client shows users what their agent says, rather than our stderr."""
        try:
            await self._connection.store()
        except Unreachable as fault:
            self._report(f"{fault}; tools say so until they reach the store")
        except NotSetUp as fault:
            self._is_badly_set_up = True
            self._report(f"no tool works until this is corrected: {fault}")
        except BaseException:
            self._is_over.set()
            raise

    async def _talk(self) -> None:
        """Until the client hangs up, in either direction."""
        with suppress(BrokenPipeError):
            while line := await asyncio.to_thread(next_line, self._wire.incoming):
                try:
                    message = message_of(line)
                    if message is not None:
                        self._take(message)
                except Refused as refused:
                    await self._wire.send(error_line(refused))

    async def _watch_silence(self) -> None:
        def left() -> float | None:
            return silence_left(boottime(), self._heard_at, self._max_silence, is_calling=bool(self._under_way))

        while self._max_silence is not None:
            if left() == 0:
                await self._agent.release_silent(Silence(self._max_silence, lambda: left() == 0))
            await asyncio.sleep(min(left() or RELEASE_AGAIN_SECONDS, LOOK_AGAIN_SECONDS))

    def _take(self, message: Message) -> None:
        request_id = message.request_id
        if request_id is None:
            if message.method == "notifications/cancelled":
                self._cancel(message.params.get("requestId"))
        elif request_id in self._calls:
            raise Refused(INVALID_REQUEST, f"a request with the id {request_id!r} is already in progress", request_id)
        elif len(self._calls) >= CALLS_MAX:
            raise Refused(TOO_MANY, f"{CALLS_MAX} requests are in progress; wait for one to finish", request_id)
        else:
            task = asyncio.create_task(self._handle(request_id, message))
            task.add_done_callback(lambda _: self._forget(request_id))
            self._calls[request_id] = _Call(task, waits=_waits(message))

    def _cancel(self, request_id: object) -> None:
        if not isinstance(request_id, str | int):
            return
        call = self._calls.get(request_id) or self._finished.get(request_id)
        if call is not None:
            call.task.cancel()
            undoing = asyncio.create_task(self._agent.undo(call.task))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)

    def _forget(self, request_id: str | int) -> None:
        self._finished[request_id] = self._calls.pop(request_id)
        asyncio.get_running_loop().call_later(CROSSING_SECONDS, self._finished.pop, request_id, None)

    async def _handle(self, request_id: str | int, message: Message) -> None:
        line = await self._line_for(request_id, message)
        try:
            await self._wire.send(line)
        except BrokenPipeError:
            self._is_over.set()

    async def _line_for(self, request_id: str | int, message: Message) -> bytes:
        self._under_way += 1
        try:
            return result_line(request_id, await self._protocol.handle(message, self._agent, self._notify))
        except Refused as refused:
            refused.request_id = request_id
            return error_line(refused)
        except Exception as fault:  # noqa: BLE001  # a client waits for a reply
            self._report(f"internal error in {message.method}: {type(fault).__name__}: {fault}")
            return error_line(Refused(INTERNAL_ERROR, "internal error", request_id))
        finally:
            self._under_way -= 1
            if message.method == "tools/call":  # clients ping and list on their own
                self._heard_at = boottime()

    async def _notify(self, method: str, params: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):
            await self._wire.send(notification_line(method, params))

    def _end(self, number: int) -> None:
        self._signal = number
        self._is_over.set()

    def _report(self, text: str) -> None:
        # A client that is gone does not read our remarks either, and there is more to do.
        with suppress(OSError):
            self._print(text)


class _Call(NamedTuple):
    task: "asyncio.Task[None]"
    waits: bool
    """Whether the call may take minutes. Such a call has most likely claimed nothing yet."""


def _waits(message: Message) -> bool:
    given = message.params.get("arguments")
    return isinstance(given, dict) and bool(given.get("wait"))


class Wire:
    """The two pipes to the client. Anything else written to stdout goes to stderr."""

    def __init__(self) -> None:
        self.incoming: BinaryIO = sys.stdin.buffer
        self._outgoing = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="octostore-mcp")
        """One thread, because lines must not interleave; not the loop's, because a client may be slow to read."""

    async def send(self, line: bytes) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writer, self._write, line)

    async def drain(self) -> None:
        """Let pending lines reach a client that reads."""
        await asyncio.wait([asyncio.wrap_future(self._writer.submit(int))], timeout=UNWIND_SECONDS)

    def _write(self, line: bytes) -> None:
        self._outgoing.write(line)
        self._outgoing.flush()
