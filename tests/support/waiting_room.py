"""Waiting claims on a server with a store in memory. Clients leave, the store stalls or fails, and time jumps."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import Mock

from octostore.core.commands import AnyCommand, Command, R_co
from octostore.core.needs import Needs
from octostore.core.replies import ClaimReply
from octostore.server.http import Request, RequestHeaders
from octostore.server.store import ServedStore
from octostore.server.waiting_claims import ClaimCommand, WaitingClaims
from octostore.stores.batch import ReplyOrError
from octostore.stores.memory import MemoryBackend, MemoryRows
from octostore.stores.store import LocalStore
from tests.support.processes import PATIENCE_SECONDS
from tests.support.world import ManualClock

QUIET_TURNS = 20
"""The number of idle turns of the loop after which a room counts as settled."""


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.001)


class SettableLoop(asyncio.SelectorEventLoop):
    """Time passes normally, and jumps on request."""

    ahead_seconds = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_seconds


class StallingBackend(MemoryBackend):
    """A store that stalls before a transaction, or fails, on request."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Exception | None = None
        self.is_stalled = threading.Event()
        self._before_stall: int | None = None
        self._unstalled = threading.Event()

    @property
    def poll_seconds(self) -> float:
        """Never: no other process writes here."""
        return 3_600.0

    def stall_after(self, transactions: int) -> None:
        self.is_stalled.clear()
        self._unstalled.clear()
        self._before_stall = transactions

    def unstall(self) -> None:
        self._before_stall = None
        self._unstalled.set()

    @contextmanager
    def writing(self, needs: Needs) -> Iterator[MemoryRows]:
        if self._before_stall == 0:
            self.is_stalled.set()
            self._unstalled.wait(PATIENCE_SECONDS)
        elif self._before_stall is not None:
            self._before_stall -= 1
        if self.fault is not None:
            raise self.fault
        with super().writing(needs) as rows:
            yield rows


class CountedStore(ServedStore):
    """Counts the replies that are still to come."""

    in_progress = 0

    def submit(self, commands: Sequence[AnyCommand]) -> "asyncio.Future[list[ReplyOrError]]":
        replies = super().submit(commands)
        self.in_progress += 1
        replies.add_done_callback(self._on_replies)
        return replies

    def _on_replies(self, _replies: object) -> None:
        self.in_progress -= 1


class Client:
    """A claim on its own connection."""

    def __init__(self, room: WaitingClaims, command: ClaimCommand, wait: float) -> None:
        self._line = Mock(is_closing=lambda: False)
        self._request = Request(self._line, "POST", "/", b"", RequestHeaders())
        self.reply: asyncio.Task[ClaimReply] = asyncio.create_task(room.claim(command, wait, self._request))

    def go(self) -> None:
        """Disconnect."""
        self._request.on_disconnect()


class Room:
    def __init__(self, loop: SettableLoop) -> None:
        self.backend = StallingBackend()
        self.clock = ManualClock()
        self.local = LocalStore(lambda: self.backend, clock=self.clock)
        self.store = CountedStore(self.local)
        self.waiting = WaitingClaims(self.store)
        self._loop = loop

    async def do(self, command: Command[R_co]) -> R_co:
        return await self.store.execute(command)

    async def client(self, command: ClaimCommand, wait: float = 60) -> Client:
        """Send a claim, and return once it has its reply or waits."""
        client = self.arrives(command, wait)
        await self.settled()
        return client

    def arrives(self, command: ClaimCommand, wait: float = 60) -> Client:
        return Client(self.waiting, command, wait)

    async def settled(self) -> None:
        """Wait until nothing more happens."""
        quiet = 0
        deadline = time.monotonic() + PATIENCE_SECONDS
        while quiet < QUIET_TURNS:
            assert time.monotonic() < deadline, "it never came to rest"
            quiet = 0 if self.store.in_progress else quiet + 1
            await asyncio.sleep(0 if quiet else 0.001)

    async def stalled(self) -> None:
        """Wait until the store stalls."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.backend.is_stalled.is_set():
            assert time.monotonic() < deadline, "the store did not stall"
            await asyncio.sleep(0.001)
        for _ in range(QUIET_TURNS):
            await asyncio.sleep(0)

    def jumps(self, seconds: float) -> None:
        """Move the loop's time, for waits; leases do not end sooner."""
        self._loop.ahead_seconds += seconds

    async def passes(self, seconds: float) -> None:
        self.jumps(seconds)
        for _ in range(QUIET_TURNS):
            await asyncio.sleep(0)
        await self.settled()


def run_in_room(test: Callable[[Room], Awaitable[None]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SettableLoop)
        room = Room(loop)
        try:
            await test(room)
        finally:
            room.backend.unstall()
            room.backend.fault = None
            room.waiting.stop()
            await room.settled()
            await room.store.close()

    with asyncio.Runner(loop_factory=SettableLoop) as runner:
        runner.run(run())
