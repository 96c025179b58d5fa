"""A server's waiting room on a store in memory: clients that go, a store that stalls or fails, and time to set."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import Mock

from octostore.core.commands import AnyCommand, Command, R_co
from octostore.core.needs import Needs
from octostore.core.replies import ClaimReply
from octostore.server.http import Request
from octostore.server.store import ServedStore
from octostore.server.waiting_claims import ClaimCommand, WaitingClaims
from octostore.stores.batch import ReplyOrError
from octostore.stores.memory import MemoryBackend, MemoryRows
from octostore.stores.store import LocalStore
from tests.support.processes import PATIENCE_SECONDS
from tests.support.world import ManualClock

QUIET_TURNS = 20
"""For how many turns of the loop nothing may happen before a room counts as settled."""


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.001)


class SettableLoop(asyncio.SelectorEventLoop):
    """Time goes on by itself, and jumps when the test says so."""

    ahead_seconds = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_seconds


class Place(MemoryBackend):
    """A store that stalls before a transaction, or fails, when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Exception | None = None
        self.is_stalled = threading.Event()
        self._before_stall: int | None = None
        self._go_on = threading.Event()

    @property
    def poll_seconds(self) -> float:
        """Nobody else writes here, so nobody needs to look."""
        return 3_600.0

    def stall_after(self, transactions: int) -> None:
        self.is_stalled.clear()
        self._go_on.clear()
        self._before_stall = transactions

    def go_on(self) -> None:
        self._before_stall = None
        self._go_on.set()

    @contextmanager
    def writing(self, needs: Needs) -> Iterator[MemoryRows]:
        if self._before_stall == 0:
            self.is_stalled.set()
            self._go_on.wait(PATIENCE_SECONDS)
        elif self._before_stall is not None:
            self._before_stall -= 1
        if self.fault is not None:
            raise self.fault
        with super().writing(needs) as rows:
            yield rows


class CountedStore(ServedStore):
    """Knows how many of its answers are still to come."""

    in_progress = 0

    def submit(self, commands: Sequence[AnyCommand]) -> "asyncio.Future[list[ReplyOrError]]":
        answers = super().submit(commands)
        self.in_progress += 1
        answers.add_done_callback(self._on_answered)
        return answers

    def _on_answered(self, _answers: object) -> None:
        self.in_progress -= 1


class Client:
    """A claim that came over a connection of its own."""

    def __init__(self, room: WaitingClaims, command: ClaimCommand, wait: float) -> None:
        self._line = Mock(is_closing=lambda: False)
        self._request = Request(self._line, "POST", "/", b"", {})
        self.answer: asyncio.Task[ClaimReply] = asyncio.create_task(room.claim(command, wait, self._request))

    def go(self) -> None:
        """Without a word."""
        self._request.on_disconnect()


class Room:
    def __init__(self, loop: SettableLoop) -> None:
        self.place = Place()
        self.clock = ManualClock()
        self.local = LocalStore(lambda: self.place, clock=self.clock)
        self.store = CountedStore(self.local)
        self.waiting = WaitingClaims(self.store)
        self._loop = loop

    async def do(self, command: Command[R_co]) -> R_co:
        return await self.store.execute(command)

    async def client(self, command: ClaimCommand, wait: float = 60) -> Client:
        """Its answer has come, or it has its place in the line."""
        client = self.arrives(command, wait)
        await self.settled()
        return client

    def arrives(self, command: ClaimCommand, wait: float = 60) -> Client:
        return Client(self.waiting, command, wait)

    async def settled(self) -> None:
        """Until nothing happens any more by itself."""
        quiet = 0
        deadline = time.monotonic() + PATIENCE_SECONDS
        while quiet < QUIET_TURNS:
            assert time.monotonic() < deadline, "it never came to rest"
            quiet = 0 if self.store.in_progress else quiet + 1
            await asyncio.sleep(0 if quiet else 0.001)

    async def stalled(self) -> None:
        """Until the transaction is about to begin that the place was told to stall before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.place.is_stalled.is_set():
            assert time.monotonic() < deadline, "nobody wrote anything"
            await asyncio.sleep(0.001)
        for _ in range(QUIET_TURNS):
            await asyncio.sleep(0)

    def jumps(self, seconds: float) -> None:
        """Time, for those who wait; leases last as long as before."""
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
            room.place.go_on()
            room.place.fault = None
            room.waiting.stop()
            await room.settled()
            await room.store.close()

    with asyncio.Runner(loop_factory=SettableLoop) as runner:
        runner.run(run())
