"""A reading sees one state of the store, whatever is committed meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from octostore.core.commands import CheckpointJob, ClaimJob, CreateToken, Enqueue, OpenSession, ReleaseJob
from octostore.core.needs import JobFilter, Needs
from octostore.core.questions import ListEvents
from octostore.core.session_keys import session_key
from octostore.core.working_set import WorkingSet
from octostore.stores.base import Backend, Reading, SessionFilter
from octostore.stores.postgres.backend import PostgresBackend
from octostore.stores.postgres.connection import parse_address
from octostore.stores.sqlite import SqliteBackend
from tests.support.postgres import new_schema
from tests.support.world import DatabaseClock, ManualClock, World

SESSION = session_key("local", "s")
EVERYTHING = JobFilter(None, "", None, "")


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """The stores that allow reads during a write; the memory store allows one call at a time."""
    clock = ManualClock() if request.param == "sqlite" else DatabaseClock()
    backend: Backend
    if request.param == "sqlite":
        backend = SqliteBackend(tmp_path / "store.db")
    else:
        backend = PostgresBackend(parse_address(new_schema()), lambda: clock.now_ms)
    world = World(backend, clock)
    lease_id = world.do(ClaimJob(job_id="kept", owner="ann")).lease_id or ""
    world.do(CheckpointJob(job_id="kept", lease_id=lease_id, data=b'{"step":1}'))
    yield world
    backend.close()


def change_everything(world: World) -> None:
    """Change something in every reply."""
    claim = world.do(ClaimJob(job_id="new", owner="bob"))
    world.do(CheckpointJob(job_id="kept", lease_id=lease_of(world), data=b'{"step":2}'))
    world.do(ReleaseJob(job_id="kept", lease_id=lease_of(world), outcome="done", result=b"7"))
    world.do(Enqueue(job_id="queued", kind="build", queue="ci"))
    world.do(OpenSession(session_id="s", agent="bob"))
    world.do(CreateToken(token_id="t", name="ci", digest=b"d" * 32, scopes=("read",)))
    assert claim.status == "claimed"


def lease_of(world: World) -> str:
    with world.backend.reading() as reading:
        ws = working_set(reading)
        reading.load(ws, Needs(jobs={"kept"}, sweep_limit=0))
        claim = ws.job("kept").claim
    assert claim is not None
    return claim.lease_id


def working_set(reading: Reading) -> WorkingSet:
    counters = reading.counters()
    return WorkingSet(now=counters.mark.now, seq=counters.seq)


def test_what_is_committed_during_a_reading_is_not_in_it(world: World) -> None:
    with world.backend.reading() as reading:
        ws = working_set(reading)
        assert [job.job_id for job in reading.list_jobs(ws, EVERYTHING, 100)] == ["kept"]
        change_everything(world)
        again = working_set(reading)
        assert reading.counters().seq == 1
        assert [(job.job_id, job.status) for job in reading.list_jobs(again, EVERYTHING, 100)] == [("kept", "claimed")]
        reading.load(again, Needs(jobs={"new"}, documents_of={"kept"}, sessions={SESSION}, sweep_limit=0))
        assert (again.jobs["new"], again.sessions[SESSION]) == (None, None)
        assert [entry.seq for entry in reading.list_events(ListEvents(limit=100))[0]] == [1]
        assert reading.list_sessions(again, SessionFilter(None, None, "", 100)) == []
        assert (reading.list_tokens(), reading.find_tokens([b"d" * 32])) == ([], [])
        figures = reading.figures(again.now)
        assert (figures.claimed, figures.waiting, figures.open_sessions, figures.queued) == (1, 0, 0, {})
        assert figures.seq == 1
    with world.backend.reading() as reading:
        jobs = {job.job_id: job.status for job in reading.list_jobs(working_set(reading), EVERYTHING, 100)}
        assert jobs == {"kept": "done", "new": "claimed", "queued": "queued"}
        figures = reading.figures(reading.counters().mark.now)
        assert (figures.claimed, figures.waiting, figures.open_sessions) == (1, 1, 1)


def test_what_belongs_to_a_job_is_as_old_as_the_job(world: World) -> None:
    """The commit comes before its row and its checkpoint are read."""
    with world.backend.reading() as reading:
        reading.counters()
        change_everything(world)
        ws = working_set(reading)
        reading.load(ws, Needs(jobs={"kept"}, documents_of={"kept"}, sweep_limit=0))
        kept = ws.job("kept")
        assert (kept.status, kept.result_seq, ws.checkpoints["kept"]) == ("claimed", None, b'{"step":1}')


def test_two_readings_at_once_each_have_their_own_state(world: World) -> None:
    with world.backend.reading() as before:
        before.counters()
        change_everything(world)
        with world.backend.reading() as after:
            assert len(after.list_jobs(working_set(after), EVERYTHING, 100)) == 3
            assert len(before.list_jobs(working_set(before), EVERYTHING, 100)) == 1
        assert len(before.list_jobs(working_set(before), EVERYTHING, 100)) == 1


def test_a_reading_that_fails_leaves_nothing_open(world: World) -> None:
    def fail() -> None:
        with world.backend.reading() as reading:
            reading.counters()
            raise LookupError

    for number in range(2, 12):
        with pytest.raises(LookupError):
            fail()
        world.do(ClaimJob(job_id=f"job-{number}", owner="ann"))
        with world.backend.reading() as reading:
            assert reading.counters().seq == number
            assert len(reading.list_jobs(working_set(reading), EVERYTHING, 100)) == number
