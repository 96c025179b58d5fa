"""The end of the log, read once for all who follow it."""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice

import msgspec

from octostore.core.errors import Unreachable
from octostore.core.events import Event
from octostore.core.limits import PAGE_MAX
from octostore.core.questions import GetFigures, ListEvents
from octostore.server.store import ServedStore
from octostore.stores.loop_flag import LoopFlag
from octostore.stores.wakeups import EVERYTHING

KEPT = 10_000
"""How many events a reader may be behind before it has to be served from the store."""
RETRY_SECONDS = 0.5


class Line(msgspec.Struct, frozen=True):
    """An event, and how it looks on a stream."""

    event: Event
    frame: bytes


class Feed:
    """`on_event` is told of each new event, in order."""

    def __init__(self, store: ServedStore, on_event: Callable[[Event], None]) -> None:
        self._store = store
        self._on_event = on_event
        self._kept: deque[Line] = deque(maxlen=KEPT)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.last_seq = 0

    async def start(self) -> None:
        self.last_seq = (await self._store.ask(GetFigures())).seq
        self._task = asyncio.create_task(self._follow())

    def stop(self) -> None:
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

    async def _follow(self) -> None:
        bell = LoopFlag()
        with self._store.local.listening([EVERYTHING], bell.set):
            while True:
                bell.event.clear()
                try:
                    while await self._read():
                        pass
                except Unreachable:
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                await bell.event.wait()

    async def _read(self) -> bool:
        page = await self._store.ask(ListEvents(after=self.last_seq, limit=PAGE_MAX))
        for event in page.events:
            self._kept.append(line_of(event))
            self._on_event(event)
        self.last_seq = page.after
        if page.events:
            self.wake()
        return len(page.events) == PAGE_MAX


_encode = msgspec.json.Encoder().encode


def line_of(event: Event) -> Line:
    return Line(event, b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), _encode(event)))
