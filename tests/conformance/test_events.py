"""The log: gap-free, ordered, resumable, and free of secrets."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import msgspec
import pytest

from octostore import Event, InvalidInput
from tests.conformance.conftest import System


def test_every_transition_is_one_event(system: System) -> None:
    store = system.store
    claim = store.claim_job("a", owner="ann", metadata={"x": 1})
    store.heartbeat_job("a", claim.lease_id or "")
    store.release_job("a", claim.lease_id or "")
    store.enqueue("build", {"y": 2}, job_id="b")
    store.claim_next(ttl=10)
    system.advance(10)
    store.recover()
    events = list(system.other.events())
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert [event.type for event in events] == ["claimed", "released", "enqueued", "claimed", "expired"]
    assert (events[0].owner, events[0].data["metadata"]) == ("ann", {"x": 1})
    assert events[4].data["late_ms"] == 0
    assert (claim.lease_id or "") not in str(msgspec.json.encode(events))


def test_the_log_can_be_read_from_anywhere(system: System) -> None:
    store = system.store
    for number in range(5):
        store.claim_job(f"team/{number}")
        store.claim_job(f"other-{number}")
    assert [event.seq for event in store.events(after=7)] == [8, 9, 10]
    assert list(store.events(after=10)) == []
    assert [event.job_id for event in store.events(prefix="team/", after=6)] == ["team/3", "team/4"]
    assert [event.seq for event in store.events(job_id="team/2")] == [5]
    assert list(store.events(job_id="unknown")) == []


def test_the_log_can_be_read_since_a_time_and_by_type(system: System) -> None:
    store = system.store
    for number in range(3):
        claim = store.claim_job(f"job-{number}")
        store.release_job(f"job-{number}", claim.lease_id or "")
        system.advance(10)
    since = next(event.at for event in store.events(job_id="job-1"))
    assert [event.seq for event in system.other.events(since=since)] == [3, 4, 5, 6]
    assert [event.seq for event in store.events(since=since + timedelta(milliseconds=1))] == [5, 6]
    assert list(store.events(since=since + timedelta(seconds=60))) == []
    assert [event.seq for event in store.events(since=since, types=["released"], prefix="job-")] == [4, 6]
    page = system.other.list_events(since=since, types=["claimed", "released"], limit=2)
    assert ([event.seq for event in page.events], page.after) == ([3, 4], 4)
    assert store.list_events(page.after, since=since, types=["released"], job_id="job-1").events == []
    assert [event.seq for event in store.events(job_id="job-1", prefix="job-")] == [3, 4]
    assert list(store.events(job_id="job-1", prefix="job-2")) == []
    wrong: list[dict[str, Any]] = [{"types": ["stolen"]}, {"types": []}, {"types": "released"}]
    for which in [*wrong, {"since": datetime(2026, 7, 1)}]:  # noqa: DTZ001
        with pytest.raises(InvalidInput, match=next(iter(which))):
            store.list_events(**which)


@pytest.mark.parametrize(
    "which", [{}, {"job_id": "job-3"}, {"prefix": "job-3"}, {"types": ["claimed", "force_released"]}]
)
def test_following_goes_on_with_later_events(system: System, which: dict[str, Any]) -> None:
    store = system.store
    store.claim_job("job-3")
    events = store.events(follow=True, **which)
    seen: list[Event] = [next(events)]
    got_all = threading.Event()

    def follow() -> None:
        seen.extend(islice(events, 1))
        got_all.set()

    follower = threading.Thread(target=follow)
    follower.start()
    system.other.force_release("job-3")
    assert got_all.wait(timeout=10)
    follower.join()
    events.close()  # type: ignore[attr-defined]  # it is a generator
    assert [event.type for event in seen] == ["claimed", "force_released"]


def test_a_long_log_is_read_completely(system: System) -> None:
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda number: system.store.enqueue("k", job_id=f"job-{number}"), range(1_100)))
    assert [event.seq for event in system.store.events()] == list(range(1, 1_101))
    assert len(list(system.store.events(prefix="job-10"))) == 111
