"""Heartbeats for streams. Each is read and encoded once for all streams, and only while a stream wants it.

Heartbeats are not events: there are too many to log. So a stream gets the current state, without history.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

import msgspec

from octostore.core.errors import OctoStoreError
from octostore.core.questions import ListHeartbeats
from octostore.core.replies import Heartbeat
from octostore.server.feed import Feed, wake_in_groups
from octostore.server.store import ServedStore

READ_SECONDS = 2.0
"""The shortest interval between two readings."""
REST, REST_MAX_SECONDS = 20, 30.0
"""After a reading, rest for 20 times as long as it took, so that readings of up to 1.5 s cost at most 5% of a core."""
READ_AT_ONCE = 64
"""How many jobs to read at once: few enough that other threads hardly wait for the interpreter lock."""

_encode = msgspec.json.Encoder().encode


class HeartbeatFrame(NamedTuple):
    """A live claim, its frame for streams, and the reading that first found it in this state."""

    heartbeat: Heartbeat
    frame: bytes
    reading: int


class HeartbeatFeed:
    def __init__(self, store: ServedStore, log_feed: Feed, read_seconds: float = READ_SECONDS) -> None:
        self._store = store
        self.log_feed = log_feed
        self._read_seconds = read_seconds
        self._readers: set[HeartbeatReader] = set()
        self._task: asyncio.Task[None] | None = None
        self._next_at = 0.0
        self.frames: dict[str, HeartbeatFrame] = {}
        self.reading = 0
        """The number of the last reading."""

    @contextmanager
    def watching(self, job_ids: Sequence[str]) -> "Iterator[HeartbeatReader]":
        reader = HeartbeatReader(self, frozenset(job_ids))
        if not job_ids:
            yield reader
            return
        self._readers.add(reader)
        if self._task is None:
            self._task = asyncio.create_task(self._read_forever())
        try:
            yield reader
        finally:
            self._readers.remove(reader)
            if not self._readers:
                self.stop()

    def stop(self) -> None:
        """Stop reading, and drop what was read: it would be stale by the time a stream wants it."""
        if self._task is not None:
            self._task.cancel()
        self._task, self.frames = None, {}

    async def _read_forever(self) -> None:
        while True:
            await asyncio.sleep(self._next_at - time.monotonic())
            began_at = time.monotonic()
            try:
                with suppress(OctoStoreError):  # the stream reports an unreachable store anyway
                    await self._read()
            finally:  # also if the last reader leaves meanwhile: reconnecting must not cause more readings
                self._next_at = next_reading(began_at, time.monotonic(), self._read_seconds)

    async def _read(self) -> None:
        wanted = tuple(set().union(*(reader.job_ids for reader in self._readers)))
        beats: dict[str, HeartbeatFrame] = {}
        reading = self.reading + 1
        for start in range(0, len(wanted), READ_AT_ONCE):
            some = wanted[start : start + READ_AT_ONCE]
            beats |= await self._store.in_feed_thread(partial(self._read_some, some, reading))
        self.frames, self.reading = beats, reading
        changed = {job_id for job_id, beat in beats.items() if beat.reading == reading}
        concerned = [reader.change for reader in self._readers if not changed.isdisjoint(reader.job_ids)]
        await wake_in_groups([reader for reader in concerned if reader is not None])

    def _read_some(self, job_ids: tuple[str, ...], reading: int) -> dict[str, HeartbeatFrame]:
        """Runs in the feed's thread."""
        found: dict[str, HeartbeatFrame] = {}
        for heartbeat in self._store.local.ask(ListHeartbeats(job_ids=job_ids)).claims:
            known = self.frames.get(heartbeat.job_id)
            if known is None or known.heartbeat != heartbeat:
                known = HeartbeatFrame(heartbeat, b"event: heartbeat\ndata: %s\n\n" % _encode(heartbeat), reading)
            found[heartbeat.job_id] = known
        return found


def next_reading(began_at: float, ended_at: float, read_seconds: float = READ_SECONDS) -> float:
    rest_seconds = min((ended_at - began_at) * REST, REST_MAX_SECONDS)
    return max(began_at + read_seconds, ended_at + rest_seconds)


class HeartbeatReader:
    """A stream that follows the heartbeats of some jobs."""

    def __init__(self, feed: HeartbeatFeed, job_ids: frozenset[str]) -> None:
        self.job_ids = job_ids
        self._feed = feed
        self._seen = 0
        """The last reading whose changes were sent."""
        self.change: asyncio.Future[None] | None = None

    def news(self) -> bytes:
        """The frames that changed since the last call; on the first call, those of all its jobs."""
        seen, self._seen = self._seen, self._feed.reading
        if seen == self._seen:
            return b""
        found = [beat for job_id in self.job_ids if (beat := self._feed.frames.get(job_id)) is not None]
        return b"".join([beat.frame for beat in found if beat.reading > seen])

    async def next_change(self) -> None:
        """Wait until there may be new heartbeats or events."""
        self.change = self._feed.log_feed.next_change()
        await self.change
