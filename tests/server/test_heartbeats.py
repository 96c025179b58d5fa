"""Heartbeats of chosen jobs: as a question, and on event streams, which share the reads."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import pytest

from octostore.core.commands import ClaimJob, HeartbeatJob, ReleaseJob
from octostore.core.errors import Unreachable
from octostore.server.feed import Feed
from octostore.server.heartbeat_feed import (
    READ_SECONDS,
    REST,
    REST_MAX_SECONDS,
    HeartbeatFeed,
    HeartbeatReader,
    next_reading,
)
from octostore.server.store import ServedStore
from octostore.stores.memory import MemoryBackend, MemoryRows
from octostore.stores.store import LocalStore
from tests.support.processes import PATIENCE_SECONDS
from tests.support.server import ServerProcess
from tests.support.waiting_room import until
from tests.support.world import ManualClock

# What the streams share


class CountingBackend(MemoryBackend):
    """Counts its reads, and is unreachable while `is_away`."""

    readings = 0
    is_away = False
    on_reading: Callable[[], Any] = staticmethod(lambda: None)

    @contextmanager
    def reading(self) -> Iterator[MemoryRows]:
        self.readings += 1
        self.on_reading()
        if self.is_away:
            raise Unreachable("the disk is gone", reason="io")
        with super().reading() as rows:
            yield rows


class Setting(NamedTuple):
    store: ServedStore
    backend: CountingBackend
    clock: ManualClock
    heartbeat_feed: HeartbeatFeed

    async def claim(self, job_id: str) -> str:
        return (await self.store.execute(ClaimJob(job_id=job_id, owner="ann", ttl=60))).lease_id or ""

    async def next_reading(self) -> None:
        """Wait until a reading that starts after this call has ended."""
        wanted = self.heartbeat_feed.reading + 2
        await until(lambda: self.heartbeat_feed.reading >= wanted)


def with_heartbeat_feed(test: Callable[[Setting], Awaitable[None]]) -> None:
    async def run() -> None:
        backend, clock = CountingBackend(), ManualClock()
        store = ServedStore(LocalStore(lambda: backend, clock=clock))
        feed = Feed(store, lambda _entries: None, tick_seconds=3_600)
        await asyncio.wait_for(
            test(Setting(store, backend, clock, HeartbeatFeed(store, feed, 0.001))), PATIENCE_SECONDS
        )
        await store.close()

    asyncio.run(run())


async def next_heartbeats(watcher: HeartbeatReader) -> list[dict[str, Any]]:
    while not (news := watcher.news()):
        await watcher.next_change()
    return data_of(news)


def data_of(news: bytes) -> list[dict[str, Any]]:
    frames = [frame.split(b"\n") for frame in news.split(b"\n\n")[:-1]]
    assert {head for head, _ in frames} == {b"event: heartbeat"}
    return [msgspec.json.decode(data.removeprefix(b"data: ")) for _, data in frames]


def test_a_stream_starts_with_the_current_state_and_then_gets_changes() -> None:
    async def test(setting: Setting) -> None:
        store, clock = setting.store, setting.clock
        lease = await setting.claim("a")
        await setting.claim("b")
        await setting.claim("other")
        with setting.heartbeat_feed.watching(["a", "b", "free"]) as watcher:
            assert sorted(heartbeat["job_id"] for heartbeat in await next_heartbeats(watcher)) == ["a", "b"]
            await setting.next_reading()
            assert watcher.news() == b"", "nothing has changed"
            clock.advance(1)
            await store.execute(HeartbeatJob(job_id="a", lease_id=lease, note="half of it"))
            (heartbeat,) = await next_heartbeats(watcher)
            assert (heartbeat["job_id"], heartbeat["progress"]["note"], heartbeat["late"]) == ("a", "half of it", False)
            clock.advance(40)
            late = await next_heartbeats(watcher)
            late += [] if len(late) == 2 else await next_heartbeats(watcher)
            assert sorted((heartbeat["job_id"], heartbeat["late"]) for heartbeat in late) == [("a", True), ("b", True)]
            await store.execute(ReleaseJob(job_id="a", lease_id=lease))
            await setting.next_reading()
            assert watcher.news() == b"", "the event in the log reports its end"
            await setting.claim("a")
            assert [heartbeat["job_id"] for heartbeat in await next_heartbeats(watcher)] == ["a"]

    with_heartbeat_feed(test)


def test_a_slow_stream_gets_only_the_latest_state() -> None:
    async def test(setting: Setting) -> None:
        lease = await setting.claim("a")
        with setting.heartbeat_feed.watching(["a"]) as watcher:
            for note in ("one", "two", "three"):
                await setting.store.execute(HeartbeatJob(job_id="a", lease_id=lease, note=note))
                await setting.next_reading()
            assert [heartbeat["progress"]["note"] for heartbeat in await next_heartbeats(watcher)] == ["three"]

    with_heartbeat_feed(test)


def test_streams_share_reads_and_encoded_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []

    def encode_and_note(heartbeat: Any) -> bytes:
        encoded.append(heartbeat.job_id)
        return msgspec.json.encode(heartbeat)

    monkeypatch.setattr("octostore.server.heartbeat_feed._encode", encode_and_note)

    async def test(setting: Setting) -> None:
        heartbeat_feed, backend = setting.heartbeat_feed, setting.backend
        await setting.claim("a")
        with heartbeat_feed.watching(["a", "b"]) as one, heartbeat_feed.watching(["a", "c"]) as two:
            first, second = await next_heartbeats(one), await next_heartbeats(two)
            assert first == second
            before, number = backend.readings, heartbeat_feed.reading
            await setting.next_reading()
            await setting.next_reading()
            assert backend.readings - before <= heartbeat_feed.reading - number + 1, "however many streams there are"
        assert encoded == ["a"]

    with_heartbeat_feed(test)


def test_nothing_is_read_without_streams() -> None:
    async def test(setting: Setting) -> None:
        await setting.claim("a")
        tasks = len(asyncio.all_tasks())
        with setting.heartbeat_feed.watching([]) as watcher:
            assert watcher.news() == b""
            assert len(asyncio.all_tasks()) == tasks
        with setting.heartbeat_feed.watching(["a"]) as watcher:
            await next_heartbeats(watcher)
            assert len(asyncio.all_tasks()) == tasks + 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == tasks
        with setting.heartbeat_feed.watching(["a"]) as watcher:
            assert watcher.news() == b"", "earlier reads are outdated"
            assert [heartbeat["job_id"] for heartbeat in await next_heartbeats(watcher)] == ["a"]

    with_heartbeat_feed(test)


def test_streams_that_come_and_go_cause_no_extra_reads() -> None:
    async def test(setting: Setting) -> None:
        heartbeat_feed = HeartbeatFeed(setting.store, setting.heartbeat_feed.log_feed, 3_600)
        has_begun, may_end = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()
        setting.backend.on_reading = lambda: (loop.call_soon_threadsafe(has_begun.set), may_end.wait(PATIENCE_SECONDS))
        with heartbeat_feed.watching(["a"]):
            await has_begun.wait()
        for _ in range(3):
            with heartbeat_feed.watching(["a"]):
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        may_end.set()
        await setting.store.in_feed_thread(lambda: None)  # everything queued before has run
        assert setting.backend.readings == 1

    with_heartbeat_feed(test)


def test_streams_continue_after_the_store_was_unreachable() -> None:
    async def test(setting: Setting) -> None:
        await setting.claim("a")
        setting.backend.is_away = True
        with setting.heartbeat_feed.watching(["a"]) as watcher:
            await until(lambda: setting.backend.readings >= 3)
            setting.backend.is_away = False
            assert [heartbeat["job_id"] for heartbeat in await next_heartbeats(watcher)] == ["a"]

    with_heartbeat_feed(test)


def test_the_pause_between_reads_grows_with_their_duration() -> None:
    assert next_reading(100.0, 100.001) == 100 + READ_SECONDS
    assert next_reading(100.0, 101.0) == 101 + REST
    assert next_reading(100.0, 200.0) == 200 + REST_MAX_SECONDS, "the pause is limited"


# Over HTTP


def test_heartbeats_can_be_read_and_followed(server: ServerProcess) -> None:
    lease = server.post("/jobs/beats%2F1/claim", {"owner": "ann"}).json["lease_id"]
    after = server.seq
    asked = server.get("/heartbeats?jobs=beats%2F1,beats%2F2").json
    assert [claim["job_id"] for claim in asked["claims"]] == ["beats/1"]
    with server.stream(f"/events?after={after}&heartbeats=beats%2F1,beats%2F2") as stream:
        first = stream.next()
        assert (first.id, first.event, first.data) == (None, "heartbeat", asked["claims"][0])
        server.post("/jobs/beats%2F2/claim")
        assert stream.next().event == "claimed"
        server.post("/jobs/beats%2F1/heartbeat", {"lease_id": lease, "progress": "half of it"})
        heartbeats = sorted(stream.take(2), key=lambda frame: str(frame.data["job_id"]))
        assert [(frame.id, frame.event, frame.data["job_id"]) for frame in heartbeats] == [
            (None, "heartbeat", "beats/1"),
            (None, "heartbeat", "beats/2"),
        ]
        assert heartbeats[0].data["progress"]["note"] == "half of it"
        server.post("/jobs/beats%2F1/release", {"lease_id": lease})
        assert stream.next().event == "released"


def test_a_limited_token_can_only_name_its_own_jobs_and_its_stream_ends_with_it(server: ServerProcess) -> None:
    created = server.post("/tokens", {"name": "limited", "scopes": ["read"], "prefix": "team/"}).json
    token = created["token"]
    server.post("/jobs/team%2Fa/claim")
    assert server.get("/heartbeats?jobs=team%2Fa", token=token).json["claims"][0]["job_id"] == "team/a"
    assert server.get("/heartbeats?jobs=team%2Fa,other", token=token).status == 403
    with server.stream("/events?heartbeats=team%2Fa,other", token=token) as stream:
        assert stream.status == 403
    with server.stream(f"/events?after={server.seq}&heartbeats=team%2Fa", token=token) as stream:
        assert stream.next().data["job_id"] == "team/a"
        server.request("DELETE", f"/tokens/{created['token_id']}")
        assert stream.rest() == []


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/heartbeats", "jobs"),
        ("/heartbeats?jobs=", "empty"),
        ("/heartbeats?jobs=a,", "empty"),
        ("/heartbeats?jobs=a%20b", "jobs must not "),
        (f"/heartbeats?jobs={','.join(map(str, range(201)))}", "jobs has 201 names; it must have 1 to 200"),
        (f"/events?heartbeats={','.join(map(str, range(201)))}", "heartbeats has 201 names"),
        ("/events?heartbeats=a", "text/event-stream"),
    ],
)
def test_errors_name_the_problem(server: ServerProcess, path: str, word: str) -> None:
    response = server.get(path)
    assert (response.status, response.json["code"]) == (400, "invalid_input")
    assert word in response.json["error"]
