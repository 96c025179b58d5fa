"""The end of the log, for all who follow it: heard from the commits, and not read again for each."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from itertools import islice

import msgspec

from octostore.core.events import Event, LogEntry, public_event
from octostore.core.limits import PAGE_MAX
from octostore.server.store import ServedStore
from octostore.stores.loop_flag import LoopFlag

WOKEN_AT_ONCE = 25
BREATH_SECONDS = 0.005
"""Readers are woken in groups, and then not for a moment: a thousand in one go would keep all answers waiting."""

KEPT = 10_000
"""How many events a reader may be behind before it has to be served from the store."""

_encode = msgspec.json.Encoder().encode


class Line(msgspec.Struct, dict=True):
    """An event, and how it looks on a stream: made when somebody wants it, once for all."""

    entry: LogEntry

    @cached_property
    def event(self) -> Event:
        return public_event(self.entry)

    @cached_property
    def frame(self) -> bytes:
        return frame_of(self.event)


def frame_of(event: Event) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), _encode(event))


class Feed:
    """`on_entries` is told of new entries, in order; every `tick_seconds` readers are woken also without any."""

    def __init__(self, store: ServedStore, on_entries: Callable[[list[LogEntry]], None], tick_seconds: float) -> None:
        self._store = store
        self._on_entries = on_entries
        self._tick_seconds = tick_seconds
        self._readers: list[asyncio.Future[None]] = []
        self._has_news = False
        self._waking: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._arrived: deque[LogEntry] = deque()
        self._kept: deque[Line] = deque(maxlen=KEPT)
        self._changed = asyncio.Event()
        self._bell = LoopFlag()
        self._at_end = ExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.last_seq = 0

    def start(self) -> None:
        self.last_seq = self._at_end.enter_context(self._store.local.following(self._hear))
        self._tasks = [asyncio.create_task(self._take_all()), asyncio.create_task(self._tick())]

    def stop(self) -> None:
        self._at_end.close()
        for task in self._tasks:
            task.cancel()
        self._is_stopped = True
        self.wake()

    def wake(self) -> None:
        """Let all readers look again, at the log and at whether they are to go on."""
        self._changed.set()
        self._changed = asyncio.Event()
        self._let_readers_look()

    def _let_readers_look(self) -> None:
        self._has_news = True
        if self._waking is None and self._readers:
            self._waking = asyncio.create_task(self._wake_readers())

    async def next_change(self) -> None:
        """For those who have just looked: until it makes sense to look again."""
        if not self._is_stopped:
            reader = asyncio.get_running_loop().create_future()
            self._readers.append(reader)
            await reader

    def after(self, seq: int) -> list[Line] | None:
        """What has happened since `seq`, some of it; None where that is too long ago to be here."""
        missing = self.last_seq - seq
        if missing > len(self._kept):
            return None
        start = len(self._kept) - missing
        return list(islice(self._kept, start, start + PAGE_MAX)) if missing > 0 else []

    @property
    def changed(self) -> asyncio.Event:
        """Set at the next change. To be taken before looking, so that nothing is missed in between."""
        return self._changed

    async def _wake_readers(self) -> None:
        while self._has_news:
            self._has_news = False
            readers, self._readers = self._readers, []
            for start in range(0, len(readers), WOKEN_AT_ONCE):
                for reader in readers[start : start + WOKEN_AT_ONCE]:
                    if not reader.done():
                        reader.set_result(None)
                await asyncio.sleep(0)
            await asyncio.sleep(BREATH_SECONDS)
        self._waking = None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._tick_seconds)
            self._let_readers_look()

    def _hear(self, entries: list[LogEntry]) -> None:
        """In the thread that has committed or read them."""
        self._arrived.extend(entries)
        if not self._bell.event.is_set():
            self._bell.set()

    async def _take_all(self) -> None:
        while await self._bell.event.wait():
            self._bell.event.clear()
            arrived = [self._arrived.popleft() for _ in range(len(self._arrived))]
            for entry in arrived:
                if entry.seq != self.last_seq + 1:
                    self._kept.clear()  # a backup was restored; what is kept has no gap
                self._kept.append(Line(entry))
                self.last_seq = entry.seq
            self._on_entries(arrived)
            self.wake()
