"""Heartbeats for streams. Each is read and encoded once for all who want it, and only while somebody does.

They are not events: there are too many to write down. So what a stream gets is how things stand, and no history.
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
"""The shortest time from one reading to the next."""
REST, REST_MAX_SECONDS = 20, 30.0
"""After a reading, rest for 20 times as long as it took, so that any number of names costs at most 5 % of a core."""
READ_AT_ONCE = 64
"""So few that other threads hardly wait for the interpreter."""

_encode = msgspec.json.Encoder().encode


class HeartbeatFrame(NamedTuple):
    """A claim as it stands, the same as a frame of a stream, and the first reading that found it so."""

    heartbeat: Heartbeat
    frame: bytes
    reading: int


class HeartbeatFeed:
    def __init__(self, store: ServedStore, feed: Feed, read_seconds: float = READ_SECONDS) -> None:
        self._store = store
        self.feed = feed
        self._read_seconds = read_seconds
        self._watchers: set[HeartbeatReader] = set()
        self._task: asyncio.Task[None] | None = None
        self._next_at = 0.0
        self.beats: dict[str, HeartbeatFrame] = {}
        self.reading = 0
        """The number of the last one."""

    @contextmanager
    def watching(self, job_ids: Sequence[str]) -> "Iterator[HeartbeatReader]":
        watcher = HeartbeatReader(self, frozenset(job_ids))
        if not job_ids:
            yield watcher
            return
        self._watchers.add(watcher)
        if self._task is None:
            self._task = asyncio.create_task(self._read_on())
        try:
            yield watcher
        finally:
            self._watchers.remove(watcher)
            if not self._watchers:
                self.stop()

    def stop(self) -> None:
        """Also forget what was read: it is old by the time somebody wants it again."""
        if self._task is not None:
            self._task.cancel()
        self._task, self.beats = None, {}

    async def _read_on(self) -> None:
        while True:
            await asyncio.sleep(self._next_at - time.monotonic())
            began_at = time.monotonic()
            try:
                with suppress(OctoStoreError):  # the store is away; everything else on the stream says so
                    await self._read()
            finally:  # also if the last watcher leaves meanwhile: who reconnects must not have it read all the time
                self._next_at = next_reading(began_at, time.monotonic(), self._read_seconds)

    async def _read(self) -> None:
        wanted = tuple(set().union(*(watcher.job_ids for watcher in self._watchers)))
        beats: dict[str, HeartbeatFrame] = {}
        reading = self.reading + 1
        for start in range(0, len(wanted), READ_AT_ONCE):
            some = wanted[start : start + READ_AT_ONCE]
            beats |= await self._store.in_feed_thread(partial(self._read_some, some, reading))
        self.beats, self.reading = beats, reading
        changed = {job_id for job_id, beat in beats.items() if beat.reading == reading}
        concerned = [watcher.reader for watcher in self._watchers if not changed.isdisjoint(watcher.job_ids)]
        await wake_in_groups([reader for reader in concerned if reader is not None])

    def _read_some(self, job_ids: tuple[str, ...], reading: int) -> dict[str, HeartbeatFrame]:
        """In the feed's thread."""
        found: dict[str, HeartbeatFrame] = {}
        for heartbeat in self._store.local.ask(ListHeartbeats(job_ids=job_ids)).claims:
            known = self.beats.get(heartbeat.job_id)
            if known is None or known.heartbeat != heartbeat:
                known = HeartbeatFrame(heartbeat, b"event: heartbeat\ndata: %s\n\n" % _encode(heartbeat), reading)
            found[heartbeat.job_id] = known
        return found


def next_reading(began_at: float, ended_at: float, read_seconds: float = READ_SECONDS) -> float:
    rest_seconds = min((ended_at - began_at) * REST, REST_MAX_SECONDS)
    return max(began_at + read_seconds, ended_at + rest_seconds)


class HeartbeatReader:
    """A stream that wants the heartbeats of some jobs."""

    def __init__(self, pulse: HeartbeatFeed, job_ids: frozenset[str]) -> None:
        self.job_ids = job_ids
        self._pulse = pulse
        self._seen = 0
        """The last reading whose changes it has sent."""
        self.reader: asyncio.Future[None] | None = None

    def news(self) -> bytes:
        """The frames of what has changed since the last call; the first time, of all its jobs."""
        seen, self._seen = self._seen, self._pulse.reading
        if seen == self._seen:
            return b""
        found = [beat for job_id in self.job_ids if (beat := self._pulse.beats.get(job_id)) is not None]
        return b"".join([beat.frame for beat in found if beat.reading > seen])

    async def next_change(self) -> None:
        """Until there may be new heartbeats, or the feed has something new."""
        self.reader = self._pulse.feed.next_change()
        await self.reader
