"""All connections of a server: shared state, timeouts and shutdown."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from typing import Any, TypeAlias

from octostore.server.addresses import Proxies
from octostore.server.connection_limits import ConnectionLimits
from octostore.server.http import Request
from octostore.server.known_heads import KnownHeads
from octostore.server.log import throttled
from octostore.server.protocol import Connection
from octostore.server.refusals import Refusal
from octostore.server.settings import Settings

TICK_SECONDS = 0.1
"""One timer serves all connections: few requests or pauses last long enough to need their own."""

App: TypeAlias = Callable[[Request], Coroutine[Any, Any, None] | None]


class Connections:
    """`app` gets each request, and calls its `close` at the end. If it returns a coroutine, we run that."""

    def __init__(self, settings: Settings, app: App) -> None:
        self.settings = settings
        self.loop = asyncio.get_running_loop()
        self.open: set[Connection] = set()
        self.write_blocked: dict[Connection, float] = {}
        """Connections that do not read what we sent, and when to cut each one off, earliest first."""
        self.in_progress: dict[Request, asyncio.Task[None]] = {}
        self.date = b""
        """The `Date` header line."""
        self.known_heads = KnownHeads(settings.max_head_bytes)
        self.proxies = Proxies(settings.trusted_proxies)
        self._limits = ConnectionLimits(settings.max_connections, settings.max_connections_per_address, self.proxies)
        self._app = app
        self._timer: asyncio.TimerHandle | None = None

    def accept(self) -> Connection:
        return Connection(self)

    def enter(self, connection: Connection) -> Refusal | None:
        self.open.add(connection)
        connection.origin, refusal = self._limits.enter(connection.peer_address)
        return refusal

    def leave(self, connection: Connection) -> None:
        self.open.discard(connection)
        self._limits.leave(connection.origin)

    def handle(self, request: Request) -> None:
        rest = self._app(request)
        if rest is not None:
            self.in_progress[request] = self.loop.create_task(rest)

    def tick(self) -> None:
        """Call once; it reschedules itself."""
        self.date = b"date: %s\r\n" % formatdate(time.time(), usegmt=True).encode()
        now = self.loop.time()
        for connection in [connection for connection in self.open if connection.deadline <= now]:
            connection.on_deadline()
        self._cut_off_slow_readers(now)
        self._timer = self.loop.call_later(TICK_SECONDS, self.tick)

    def _cut_off_slow_readers(self, now: float) -> None:
        for connection in [connection for connection, until in self.write_blocked.items() if until <= now]:
            seconds = self.settings.write_seconds
            message = "cut off a client that did not read its response (--write-seconds)"
            address, source = connection.peer_address, connection.origin
            throttled.warning("cut_off", message, source=source, address=address, seconds=seconds)
            connection.abort()

    async def end(self) -> None:
        """Finish the requests in progress, then close all connections. Cut off what takes too long."""
        for connection in list(self.open):
            connection.close_when_idle()
        deadline = self.loop.time() + self.settings.stop_seconds
        while self.open or not all(task.done() for task in self.in_progress.values()):
            if self.loop.time() > deadline:
                self.abort()
            await asyncio.sleep(TICK_SECONDS / 10)
        if self._timer is not None:
            self._timer.cancel()

    def abort(self) -> None:
        for task in list(self.in_progress.values()):
            task.cancel()
        for connection in list(self.open):
            connection.abort()
