"""Across a hand-over there is always exactly one owner: at every event of the log, and in every read in between."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import octostore
from octostore.core.commands import (
    AcquireLock,
    AnyCommand,
    ClaimJob,
    ClaimNext,
    ClaimTask,
    Enqueue,
    HandOverSession,
    HeartbeatJob,
    KeepSessionAlive,
    OpenSession,
)
from octostore.core.errors import Held, LeaseLost, OctoStoreError
from octostore.core.events import LogEntry, public_event
from octostore.core.questions import GetJob, GetSession, ListJobs
from octostore.core.replies import ClaimReply
from tests.support.postgres import new_schema
from tests.support.world import World

JOBS = ("job", "task")
AGENTS = ("ann", "bob")


def begin(world: World) -> ClaimReply:
    """Ann has a session with a task, and another claim in it."""
    world.do(Enqueue(job_id="task", kind="build", queue="tasks"))
    task = world.do(ClaimTask(session_id="s", owner="ann", queues=("tasks",), ttl=30))
    world.do(ClaimJob(job_id="job", owner="ann", session_id="s"))
    return task


def owner_now(world: World) -> str:
    """The owner that every read agrees on."""
    session = world.ask(GetSession(session_id="s"))
    assert session.status == "open"
    views = [world.ask(GetJob(job_id=job_id)) for job_id in JOBS]
    listed = world.ask(ListJobs(status="claimed")).jobs
    assert [view.job_id for view in listed] == list(JOBS)
    (owner,) = {session.agent, *(view.owner for view in [*views, *listed])}
    assert owner is not None
    return owner


def is_refused(reply: Any) -> bool:
    return isinstance(reply, Held) or getattr(reply, "status", "") in {"held", "empty"}


def assert_no_rival_gets_in(world: World) -> None:
    """No other agent or principal gets the session or its jobs with any command."""
    rivals: list[AnyCommand] = [
        ClaimJob(job_id="job", owner="eve"),
        ClaimJob(job_id="task", owner="eve", principal="guest"),
        ClaimNext(owner="eve", queue="tasks"),
        AcquireLock(job_id="job", owner="eve"),
        ClaimTask(session_id="s", owner="eve", queues=("tasks",)),
        OpenSession(session_id="s", agent="eve"),
    ]
    for rival in rivals:
        (reply,) = world.batch([rival])
        assert is_refused(reply), reply


def assert_dead(world: World, lease_id: str) -> None:
    writes: list[AnyCommand] = [
        *(HeartbeatJob(job_id=job_id, lease_id=lease_id) for job_id in JOBS),
        KeepSessionAlive(session_id="s", lease_id=lease_id),
    ]
    for reply in world.batch(writes):
        assert isinstance(reply, LeaseLost), reply


def owners_in(log: list[LogEntry]) -> list[dict[str, str]]:
    """Job -> owner after each event; events of one moment count as one step, because no one can read between them."""
    owners: dict[str, str] = {}
    states: list[dict[str, str]] = []
    for number, entry in enumerate(log):
        event = public_event(entry)
        if entry.type == "claimed":
            assert entry.job_id not in owners, "two owners at once"
            owners[entry.job_id or ""] = event.data["owner"]
        elif entry.type == "released":
            (following,) = [one for one in log[number + 1 :][:1] if one.job_id == entry.job_id]
            assert (following.type, following.at) == ("claimed", entry.at), "there is a gap"
            del owners[entry.job_id or ""]
            continue
        states.append(dict(owners))
    return states


def test_a_handed_over_session_has_one_owner_at_every_event_and_in_every_read(world: World) -> None:
    lease_id = begin(world).lease_id or ""
    began = len(world.log())
    assert owner_now(world) == "ann"
    for number in range(1, 7):
        before, after = AGENTS[(number - 1) % 2], AGENTS[number % 2]
        assert owner_now(world) == before
        assert_no_rival_gets_in(world)
        world.do(HandOverSession(session_id="s", lease_id=lease_id, to_agent=after))
        assert owner_now(world) == after, "from the reply on, even before the new owner opens the session"
        assert_dead(world, lease_id)
        assert_no_rival_gets_in(world)
        world.advance(29)  # the new owner has one TTL to open it
        assert owner_now(world) == after
        lease_id = world.do(OpenSession(session_id="s", agent=after, ttl=30)).lease_id
        assert owner_now(world) == after
        for reply in world.batch([HeartbeatJob(job_id=job_id, lease_id=lease_id) for job_id in JOBS]):
            assert not isinstance(reply, OctoStoreError)
    states = owners_in(world.log())[began:]
    assert len(states) == 6 * 4, "handed over, two claims, opened"
    assert all(set(state) == set(JOBS) for state in states), "each has an owner after every event"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/octostore.db" if request.param == "sqlite" else new_schema()


@pytest.fixture
def stores(url: str) -> Iterator[list[octostore.OctoStore]]:
    """Separate connections, as separate processes would have."""
    stores = [octostore.connect(url) for _ in range(3)]
    yield stores
    for store in stores:
        store.close()


def test_a_constant_reader_always_sees_one_owner(stores: list[octostore.OctoStore]) -> None:
    store, watcher, rival = stores
    session = store.open_session("ann", session_id="s", ttl=60)
    session.__enter__()
    store.claim_job("job", owner="ann", session_id="s")
    is_over = threading.Event()

    def watch() -> list[str | None]:
        seen = []
        while not is_over.is_set():
            owner = watcher.get_job_owner("job")
            seen.append(owner.owner if owner else None)
        return seen

    def contend() -> set[str]:
        replies: set[str] = set()
        while not is_over.is_set():
            replies.add(rival.claim_job("job", owner="eve").status)
        return replies

    with ThreadPoolExecutor(2) as pool:
        watching, contending = pool.submit(watch), pool.submit(contend)
        try:
            for number in range(1, 16):
                to_agent = AGENTS[number % 2]
                session.hand_over(to_agent)
                session = store.open_session(to_agent, session_id="s", ttl=60)
                session.__enter__()
        finally:
            is_over.set()
        seen = watching.result(30)
        assert set(seen) <= set(AGENTS)
        assert len(seen) > 1
        assert contending.result(30) == {"held"}
    session.close()
