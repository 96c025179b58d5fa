"""The log: gap-free, ordered, resumable, and free of secrets."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import msgspec
import pytest

from octostore import Event
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


def test_reading_from_anywhere(system: System) -> None:
    store = system.store
    for number in range(5):
        store.claim_job(f"team/{number}")
        store.claim_job(f"other-{number}")
    assert [event.seq for event in store.events(after=7)] == [8, 9, 10]
    assert list(store.events(after=10)) == []
    assert [event.job_id for event in store.events(prefix="team/", after=6)] == ["team/3", "team/4"]
    assert [event.seq for event in store.events(job_id="team/2")] == [5]
    assert list(store.events(job_id="unknown")) == []


@pytest.mark.parametrize("which", [{}, {"job_id": "job-3"}, {"prefix": "job-3"}])
def test_following_goes_on_with_what_happens_next(system: System, which: dict[str, str]) -> None:
    store = system.store
    store.claim_job("job-3")
    events = store.events(follow=True, **which)  # type: ignore[arg-type]
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


def test_long_logs_are_read_whole(system: System) -> None:
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda number: system.store.enqueue("k", job_id=f"job-{number}"), range(1_100)))
    assert [event.seq for event in system.store.events()] == list(range(1, 1_101))
    assert len(list(system.store.events(prefix="job-10"))) == 111
