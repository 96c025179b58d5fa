"""Pages of jobs, sessions and events: each one once, in order, and in its current state."""

from itertools import product
from typing import Any, get_args

import pytest

from octostore.core.commands import ClaimJob, ClaimNext, Enqueue, OpenSession, ReleaseJob, SaveSession
from octostore.core.events import Event
from octostore.core.model import Status
from octostore.core.moments import to_moment
from octostore.core.questions import GetSession, ListEvents, ListJobs, ListSessions
from octostore.stores import reading, reading_queues
from tests.support.world import START_MS, World


def jobs(world: World, **which: Any) -> list[str]:
    """All matching jobs, read page by page."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = world.ask(ListJobs(**which, cursor=cursor))
        found += [job.job_id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return found
        is_searching = which.get("owner") or which.get("kind")
        assert is_searching or len(page.jobs) == which["limit"], "every page but the last is full"


def events(world: World, **which: Any) -> list[Event]:
    """All matching events, read page by page."""
    found: list[Event] = []
    after = which.pop("after", 0)
    while True:
        page = world.ask(ListEvents(**which, after=after))
        found += page.events
        assert page.after > after or not page.events
        if page.after == after or not page.events:
            return found
        after = page.after


@pytest.fixture
def lived(world: World) -> World:
    """Jobs of every status, half of which expired without a record in the log."""
    names = [f"{team}-{number}" for number in range(6) for team in ("a", "ab", "b")]
    world.batch([Enqueue(job_id=name, kind="build", max_attempts=1 + n % 2) for n, name in enumerate(names)])
    world.batch([ClaimNext(owner="ann", ttl=10 if n % 3 else 1_000) for n in range(12)])
    done = world.do(ClaimJob(job_id="b-done", owner="ann"))
    world.do(ReleaseJob(job_id="b-done", lease_id=done.lease_id or "", outcome="done"))
    world.do(ClaimJob(job_id="b-free", owner="ann", ttl=10))
    world.advance(10)
    return world


def test_pages_of_jobs_have_each_job_once_and_in_order(lived: World) -> None:
    everything = lived.ask(ListJobs(limit=1_000)).jobs
    names = [job.job_id for job in everything]
    assert names == sorted(names)
    assert len(names) == 20
    by_status = {status: [job.job_id for job in everything if job.status == status] for status in get_args(Status)}
    assert all(by_status.values())
    for limit in (1, 3, 20, 21):
        assert jobs(lived, limit=limit) == names
        for status, expected in by_status.items():
            assert jobs(lived, limit=limit, status=status) == expected
        assert jobs(lived, limit=limit, prefix="a-") == [name for name in names if name.startswith("a-")]


@pytest.mark.parametrize("looked_through", [1, 4, 2_000])
def test_jobs_of_an_owner_and_a_kind(lived: World, looked_through: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name and in run order, however many jobs a page may search."""
    for module in (reading, reading_queues):
        monkeypatch.setattr(module, "JOBS_LOOKED_THROUGH", looked_through)
    monkeypatch.setattr(reading, "PAGE_MAX", 3)
    lived.batch([Enqueue(job_id=f"rare-{number}", kind="rare", queue="default") for number in range(3)])
    lived.do(ClaimJob(job_id="rare-1", owner="bob"))
    everything = lived.ask(ListJobs(limit=1_000)).jobs
    assert {job.owner for job in everything} == {None, "ann", "bob"}
    assert {job.kind for job in everything} == {None, "build", "rare"}
    for owner, kind, status in product(
        (None, "ann", "bob", "eve"), (None, "build", "rare"), (None, "claimed", "queued")
    ):
        which: dict[str, Any] = {"owner": owner, "kind": kind, "status": status}
        asked = {name: value for name, value in which.items() if value is not None}
        expected = [job.job_id for job in everything if all(getattr(job, name) == asked[name] for name in asked)]
        for limit in (1, 5, 100):
            assert jobs(lived, **which, limit=limit) == expected
            in_queue = jobs(lived, **which, limit=limit, queue="default", order="run")
            assert sorted(in_queue) == [name for name in expected if name not in {"b-done", "b-free"}]


def test_a_cursor_does_not_widen_the_prefix(lived: World) -> None:
    for cursor in ("a-3", "ab", "ab-2", "b-1"):
        page = lived.ask(ListJobs(prefix="ab-", cursor=cursor))
        assert [job.job_id for job in page.jobs] == [f"ab-{n}" for n in range(6) if f"ab-{n}" > cursor]


def test_pages_of_the_log_have_each_event_once(lived: World) -> None:
    everything = lived.events()
    for limit in (1, 4, 1_000):
        assert events(lived, limit=limit) == everything
        for prefix in ("a", "a-", "b-done", "nothing"):
            expected = [event for event in everything if (event.job_id or "").startswith(prefix)]
            assert events(lived, limit=limit, prefix=prefix) == expected
        assert [event.type for event in events(lived, limit=limit, job_id="b-done")] == ["claimed", "done"]


def test_the_log_since_a_moment_and_by_type(world: World) -> None:
    """Moments before, at, between and after the events."""
    for number in range(5):
        claims = world.batch([ClaimJob(job_id=f"job-{number}-{n}", owner="ann", ttl=1_000) for n in range(3)])
        world.advance(2)
        world.batch([ReleaseJob(job_id=claim.job_id or "", lease_id=claim.lease_id or "") for claim in claims[:2]])
        world.advance(2)
    everything = world.events()
    for since in range(START_MS - 1_000, START_MS + 22_000, 1_000):
        later = [event for event in everything if to_moment("at", event.at) >= since]
        assert events(world, since=since, limit=4) == later
        assert events(world, since=since, after=later[-2].seq if later else 3) == later[-1:]
        released = [event for event in later if event.type == "released"]
        assert events(world, since=since, types=("released",), limit=2) == released
        of_one = [event for event in released if event.job_id == "job-3-1"]
        assert events(world, since=since, types=("released",), job_id="job-3-1") == of_one
    assert events(world, types=("done", "dead")[:1]) == []


def test_a_page_of_the_log_never_moves_the_cursor_back(world: World) -> None:
    world.do(ClaimJob(job_id="job", owner="ann"))
    for which in ({}, {"prefix": "job"}, {"job_id": "job"}, {"session_id": "s"}):
        page = world.ask(ListEvents(after=7, **which))  # type: ignore[arg-type]
        assert (page.events, page.after) == ([], 7)


def test_events_must_match_every_condition(world: World) -> None:
    session = world.do(OpenSession(session_id="s", agent="ann"))
    world.do(ClaimJob(job_id="bound", owner="ann", session_id="s"))
    world.do(ClaimJob(job_id="free", owner="ann"))
    world.do(SaveSession(session_id="s", lease_id=session.lease_id, context=b"1"))

    def found(**which: Any) -> list[int]:
        return [event.seq for event in world.ask(ListEvents(**which)).events]

    assert found(session_id="s") == [1, 2, 4]
    assert found(session_id="s", job_id="bound") == found(session_id="s", prefix="b") == [2]
    assert found(session_id="s", job_id="free") == found(session_id="s", prefix="f") == []
    assert found(job_id="free", prefix="f") == [3]
    assert found(job_id="free", prefix="b") == []


def test_sessions_are_listed_with_their_jobs_and_their_lost_jobs(world: World) -> None:
    for session_id, ttl in (("live", 60), ("lost", 10)):
        world.do(OpenSession(session_id=session_id, agent="ann", ttl=ttl))
        world.do(ClaimJob(job_id=f"job-of-{session_id}", owner="ann", session_id=session_id))
    world.advance(10)
    live, lost = world.ask(ListSessions()).sessions
    assert (live.status, live.jobs, live.in_flight) == ("open", ["job-of-live"], [])
    assert (lost.status, lost.jobs, lost.in_flight) == ("expired", [], ["job-of-lost"])
    assert world.ask(GetSession(session_id="lost")) == lost
    assert "expired" not in world.event_types(), "nothing has recorded the expiry"
