"""Heartbeats of given jobs: a question, and on the stream of events, where all streams share what is read."""

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

# What streams share


class Place(MemoryBackend):
    """Counts what is read, and cannot be reached when the test says so."""

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
    place: Place
    clock: ManualClock
    pulse: HeartbeatFeed

    async def claim(self, job_id: str) -> str:
        return (await self.store.execute(ClaimJob(job_id=job_id, owner="ann", ttl=60))).lease_id or ""

    async def next_reading(self) -> None:
        """Until one has begun and ended that was not under way before."""
        wanted = self.pulse.reading + 2
        await until(lambda: self.pulse.reading >= wanted)


def with_pulse(test: Callable[[Setting], Awaitable[None]]) -> None:
    async def run() -> None:
        place, clock = Place(), ManualClock()
        store = ServedStore(LocalStore(lambda: place, clock=clock))
        feed = Feed(store, lambda _entries: None, tick_seconds=3_600)
        await asyncio.wait_for(test(Setting(store, place, clock, HeartbeatFeed(store, feed, 0.001))), PATIENCE_SECONDS)
        await store.close()

    asyncio.run(run())


async def told(watcher: HeartbeatReader) -> list[dict[str, Any]]:
    """What it gets next."""
    while not (news := watcher.news()):
        await watcher.next_change()
    return data_of(news)


def data_of(news: bytes) -> list[dict[str, Any]]:
    frames = [frame.split(b"\n") for frame in news.split(b"\n\n")[:-1]]
    assert {head for head, _ in frames} == {b"event: heartbeat"}
    return [msgspec.json.decode(data.removeprefix(b"data: ")) for _, data in frames]


def test_a_stream_gets_how_its_jobs_stand_and_then_what_changes() -> None:
    async def test(setting: Setting) -> None:
        store, clock = setting.store, setting.clock
        lease = await setting.claim("a")
        await setting.claim("b")
        await setting.claim("other")
        with setting.pulse.watching(["a", "b", "free"]) as watcher:
            assert sorted(beat["job_id"] for beat in await told(watcher)) == ["a", "b"]
            await setting.next_reading()
            assert watcher.news() == b"", "nothing has changed"
            clock.advance(1)
            await store.execute(HeartbeatJob(job_id="a", lease_id=lease, note="half of it"))
            (beat,) = await told(watcher)
            assert (beat["job_id"], beat["progress"]["note"], beat["late"]) == ("a", "half of it", False)
            clock.advance(40)
            late = await told(watcher)
            late += [] if len(late) == 2 else await told(watcher)
            assert sorted((beat["job_id"], beat["late"]) for beat in late) == [("a", True), ("b", True)]
            await store.execute(ReleaseJob(job_id="a", lease_id=lease))
            await setting.next_reading()
            assert watcher.news() == b"", "the log tells how it ended"
            await setting.claim("a")
            assert [beat["job_id"] for beat in await told(watcher)] == ["a"]

    with_pulse(test)


def test_a_stream_that_was_slow_gets_only_how_things_stand() -> None:
    async def test(setting: Setting) -> None:
        lease = await setting.claim("a")
        with setting.pulse.watching(["a"]) as watcher:
            for note in ("one", "two", "three"):
                await setting.store.execute(HeartbeatJob(job_id="a", lease_id=lease, note=note))
                await setting.next_reading()
            assert [beat["progress"]["note"] for beat in await told(watcher)] == ["three"]

    with_pulse(test)


def test_streams_share_what_is_read_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def noted(heartbeat: Any) -> bytes:
        written.append(heartbeat.job_id)
        return msgspec.json.encode(heartbeat)

    monkeypatch.setattr("octostore.server.heartbeat_feed._encode", noted)

    async def test(setting: Setting) -> None:
        pulse, place = setting.pulse, setting.place
        await setting.claim("a")
        with pulse.watching(["a", "b"]) as one, pulse.watching(["a", "c"]) as two:
            first, second = await told(one), await told(two)
            assert first == second
            before, number = place.readings, pulse.reading
            await setting.next_reading()
            await setting.next_reading()
            assert place.readings - before <= pulse.reading - number + 1, "however many want it"
        assert written == ["a"]

    with_pulse(test)


def test_nothing_is_read_while_nobody_wants_it() -> None:
    async def test(setting: Setting) -> None:
        await setting.claim("a")
        tasks = len(asyncio.all_tasks())
        with setting.pulse.watching([]) as watcher:
            assert watcher.news() == b""
            assert len(asyncio.all_tasks()) == tasks
        with setting.pulse.watching(["a"]) as watcher:
            await told(watcher)
            assert len(asyncio.all_tasks()) == tasks + 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == tasks
        with setting.pulse.watching(["a"]) as watcher:
            assert watcher.news() == b"", "what was read then is old"
            assert [beat["job_id"] for beat in await told(watcher)] == ["a"]

    with_pulse(test)


def test_streams_that_come_and_go_do_not_make_it_read_more_often() -> None:
    async def test(setting: Setting) -> None:
        pulse = HeartbeatFeed(setting.store, setting.pulse.log_feed, 3_600)
        has_begun, may_end = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()
        setting.place.on_reading = lambda: (loop.call_soon_threadsafe(has_begun.set), may_end.wait(PATIENCE_SECONDS))
        with pulse.watching(["a"]):
            await has_begun.wait()
        for _ in range(3):
            with pulse.watching(["a"]):
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        may_end.set()
        await setting.store.in_feed_thread(lambda: None)  # after all that it was given before
        assert setting.place.readings == 1

    with_pulse(test)


def test_it_goes_on_after_the_store_was_away() -> None:
    async def test(setting: Setting) -> None:
        await setting.claim("a")
        setting.place.is_away = True
        with setting.pulse.watching(["a"]) as watcher:
            await until(lambda: setting.place.readings >= 3)
            setting.place.is_away = False
            assert [beat["job_id"] for beat in await told(watcher)] == ["a"]

    with_pulse(test)


def test_it_rests_many_times_as_long_as_it_works() -> None:
    assert next_reading(100.0, 100.001) == 100 + READ_SECONDS
    assert next_reading(100.0, 101.0) == 101 + REST
    assert next_reading(100.0, 200.0) == 200 + REST_MAX_SECONDS, "it comes back"


# Over HTTP


def test_it_is_asked_for_and_followed(server: ServerProcess) -> None:
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
        told = sorted(stream.take(2), key=lambda frame: str(frame.data["job_id"]))
        assert [(frame.id, frame.event, frame.data["job_id"]) for frame in told] == [
            (None, "heartbeat", "beats/1"),
            (None, "heartbeat", "beats/2"),
        ]
        assert told[0].data["progress"]["note"] == "half of it"
        server.post("/jobs/beats%2F1/release", {"lease_id": lease})
        assert stream.next().event == "released"


def test_a_token_may_only_name_its_jobs_and_a_stream_ends_with_it(server: ServerProcess) -> None:
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
def test_what_is_wrong_is_said(server: ServerProcess, path: str, word: str) -> None:
    answer = server.get(path)
    assert (answer.status, answer.json["code"]) == (400, "invalid_input")
    assert word in answer.json["error"]
