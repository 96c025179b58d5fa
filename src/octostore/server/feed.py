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

KEPT = 10_000
"""How many events a reader may be behind before it has to be served from the store."""

_encode = msgspec.json.Encoder().encode


class Line:
    """An event, and how it looks on a stream: made when somebody wants it, once for all."""

    def __init__(self, entry: LogEntry) -> None:
        self.entry = entry

    @cached_property
    def event(self) -> Event:
        return public_event(self.entry)

    @cached_property
    def frame(self) -> bytes:
        return frame_of(self.event)


def frame_of(event: Event) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), _encode(event))


class Feed:
    """`on_entry` is told of each new entry, in order."""

    def __init__(self, store: ServedStore, on_entry: Callable[[LogEntry], None]) -> None:
        self._store = store
        self._on_entry = on_entry
        self._arrived: deque[LogEntry] = deque()
        self._kept: deque[Line] = deque(maxlen=KEPT)
        self._changed = asyncio.Event()
        self._bell = LoopFlag()
        self._at_end = ExitStack()
        self._task: asyncio.Task[None] | None = None
        self.last_seq = 0

    def start(self) -> None:
        self.last_seq = self._at_end.enter_context(self._store.local.following(self._hear))
        self._task = asyncio.create_task(self._take_all())

    def stop(self) -> None:
        self._at_end.close()
        if self._task is not None:
            self._task.cancel()
        self.wake()

    def wake(self) -> None:
        """Let all readers look again, at the log and at whether they are to go on."""
        self._changed.set()
        self._changed = asyncio.Event()

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

    def _hear(self, entries: list[LogEntry]) -> None:
        """In the thread that has committed or read them."""
        self._arrived.extend(entries)
        if not self._bell.event.is_set():
            self._bell.set()

    async def _take_all(self) -> None:
        while await self._bell.event.wait():
            self._bell.event.clear()
            while self._arrived:
                entry = self._arrived.popleft()
                self._kept.append(Line(entry))
                self.last_seq = entry.seq
                self._on_entry(entry)
            self.wake()
