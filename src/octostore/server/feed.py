"""The end of the log, for all streams that follow it. It comes from the commits, so the streams need not read it."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple

import msgspec

from octostore.core.events import Event, LogEntry, public_event
from octostore.core.questions import ListEvents
from octostore.server.store import ServedStore
from octostore.server.streams import CHUNK_BYTES
from octostore.stores.loop_flag import call_in_loop

WAKE_GROUP_SIZE = 5
WAKE_PAUSE_SECONDS = 0.005
"""Readers are woken in small groups, with a pause between rounds: a thousand at once would delay every response."""

KEEP_EVENTS, KEEP_BYTES = 10_000, 4 * 1_024 * 1_024
"""How many events, and bytes of them, are kept in memory. A reader that is further behind reads from the store."""

SCAN_LIMIT = 100
"""How many events are considered for one part of a stream. A part rarely has room for more."""

_encode = msgspec.json.Encoder().encode


class FeedEntry(msgspec.Struct):
    """An event, and its frame once a stream has needed it."""

    entry: LogEntry
    frame: bytes = b""


class Part(NamedTuple):
    """What a stream sends next, and the `seq` after which it continues."""

    content: bytes
    after: int


def encode_frame(event: Event) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), _encode(event))


class Feed:
    """Calls `on_entries` with new entries, in order. Readers also wake every `tick_seconds` if nothing is new."""

    def __init__(self, store: ServedStore, on_entries: Callable[[list[LogEntry]], None], tick_seconds: float) -> None:
        self._store = store
        self._on_entries = on_entries
        self._tick_seconds = tick_seconds
        self._readers: list[asyncio.Future[None]] = []
        self._has_news = False
        self._waking: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._arrived: deque[LogEntry] = deque()
        self._kept: deque[FeedEntry] = deque()
        self._kept_bytes = 0
        self._catching_up = asyncio.Lock()
        self._changed: asyncio.Event | None = None
        self._loop = asyncio.get_running_loop()
        self._is_processing_due = False
        self._at_end = ExitStack()
        self._ticking: asyncio.Task[None] | None = None
        self.last_seq = 0

    def start(self) -> None:
        self.last_seq = self._at_end.enter_context(self._store.local.following(self._on_commit))
        self._ticking = asyncio.create_task(self._tick())

    def stop(self) -> None:
        self._at_end.close()
        if self._ticking is not None:
            self._ticking.cancel()
        self._is_stopped = True
        self.wake()

    def wake(self) -> None:
        """Let all readers check the log again, and whether they may continue."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        self._schedule_wakeup()

    def _schedule_wakeup(self) -> None:
        self._has_news = True
        if self._waking is None and self._readers:
            self._waking = asyncio.create_task(self._wake_readers())

    def next_change(self) -> asyncio.Future[None]:
        """A future that is done when there may be something new. The caller may complete it earlier."""
        reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_stopped:
            reader.set_result(None)
        else:
            self._readers.append(reader)
        return reader

    def after(self, seq: int) -> list[FeedEntry] | None:
        """The next events after `seq`; None if they are no longer in memory."""
        missing = self.last_seq - seq
        if missing > len(self._kept):
            return None
        if missing <= 0:
            return []
        # From the end, where nearly all readers are: indexing into the middle of a deque is slow.
        found = list(islice(reversed(self._kept), max(0, missing - SCAN_LIMIT), missing))
        found.reverse()
        return found

    async def part(self, question: ListEvents) -> Part:
        """The next events that match `question`. Empty at the end of the log, or if no considered event matches."""
        if self.last_seq - question.after < SCAN_LIMIT:
            return await self._part(question)
        # Readers that are far behind take turns, so that they do not hold up the rest of the server.
        async with self._catching_up:
            await asyncio.sleep(0)
            return await self._part(question)

    async def _part(self, question: ListEvents) -> Part:
        recent = self.after(question.after)
        if recent is None:
            wanted = msgspec.structs.replace(question, limit=SCAN_LIMIT)
            return await self._store.in_feed_thread(partial(_part_of_store, self._store, wanted))
        lines = [line for line in recent if question.matches(line.entry)]
        if not all(line.frame for line in lines):
            await self._store.in_feed_thread(partial(_write_frames, lines))
        looked_at = recent[-1].entry.seq if recent else question.after
        return _first_part(((line.entry.seq, line.frame) for line in lines), looked_at)

    @property
    def changed(self) -> asyncio.Event:
        """Set at the next change. Get it before you check, so that you miss nothing in between."""
        self._changed = self._changed or asyncio.Event()
        return self._changed

    async def _wake_readers(self) -> None:
        while self._has_news:
            self._has_news = False
            new = list(takewhile(lambda line: not line.frame, islice(reversed(self._kept), SCAN_LIMIT)))
            if new:  # encode them once, before the readers need them
                await self._store.in_feed_thread(partial(_write_frames, new))
            readers, self._readers = self._readers, []
            await wake_in_groups(readers)
            await asyncio.sleep(WAKE_PAUSE_SECONDS)
        self._waking = None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._tick_seconds)
            self._schedule_wakeup()

    def _on_commit(self, entries: list[LogEntry]) -> None:
        """Runs in the thread that committed or read the entries."""
        self._arrived.extend(entries)
        if not self._is_processing_due:
            self._is_processing_due = True
            call_in_loop(self._loop, self._process_arrivals)

    def _process_arrivals(self) -> None:
        """A plain call after each commit: a task would cost more than what it does."""
        self._is_processing_due = False  # first, so that entries that arrive from now on are not missed
        arrived = [self._arrived.popleft() for _ in range(len(self._arrived))]
        for entry in arrived:
            self._keep(entry)
        self._on_entries(arrived)
        self.wake()

    def _keep(self, entry: LogEntry) -> None:
        if entry.seq != self.last_seq + 1:
            self._kept.clear()  # a backup was restored, and the kept entries must not have a gap
            self._kept_bytes = 0
        self._kept.append(FeedEntry(entry))
        self._kept_bytes += len(entry.details)
        while len(self._kept) > KEEP_EVENTS or self._kept_bytes > KEEP_BYTES:
            self._kept_bytes -= len(self._kept.popleft().entry.details)
        self.last_seq = entry.seq


async def wake_in_groups(readers: Sequence[asyncio.Future[None]]) -> None:
    for start in range(0, len(readers), WAKE_GROUP_SIZE):
        for reader in readers[start : start + WAKE_GROUP_SIZE]:
            if not reader.done():
                reader.set_result(None)
        await asyncio.sleep(0)


# These run in the feed's thread


def _write_frames(lines: Iterable[FeedEntry]) -> None:
    for line in lines:
        if not line.frame:
            line.frame = encode_frame(public_event(line.entry))


def _part_of_store(store: ServedStore, question: ListEvents) -> Part:
    page = store.local.ask(question)
    return _first_part(((event.seq, encode_frame(event)) for event in page.events), page.after)


def _first_part(frames: Iterable[tuple[int, bytes]], looked_at: int) -> Part:
    """As many frames as fit into a part, but at least one."""
    taken: list[bytes] = []
    size = after = 0
    for seq, frame in frames:
        size += len(frame)
        if taken and size > CHUNK_BYTES:
            return Part(b"".join(taken), after)
        taken.append(frame)
        after = seq
    return Part(b"".join(taken), looked_at)
