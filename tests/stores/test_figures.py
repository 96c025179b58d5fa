"""What a server asks a store besides its jobs: the figures, and the key for pseudonyms."""

from pathlib import Path

import msgspec

from octostore.core.commands import (
    AcquireLock,
    CancelJob,
    ClaimJob,
    ClaimNext,
    CloseSession,
    Enqueue,
    ForceReleaseJob,
    KeepSessionAlive,
    OpenSession,
    Recover,
)
from octostore.core.limits import FIGURES_QUEUES
from octostore.core.moments import to_datetime
from octostore.core.questions import GetFigures, GetStoreKey
from octostore.core.replies import Figures
from octostore.stores.sqlite import SqliteBackend
from tests.support.world import World


def test_the_figures_of_an_empty_store(world: World) -> None:
    nothing = Figures(
        claimed=0,
        late=0,
        dead=0,
        open_sessions=0,
        waiting=0,
        oldest_due_at=None,
        taken_back=0,
        queued={},
        seq=0,
        at=to_datetime(world.clock.now_ms),
    )
    assert msgspec.structs.replace(world.ask(GetFigures()), store_id="") == nothing


def test_the_figures_count_everything(world: World) -> None:
    for number, queue in enumerate(["b", "a", "b", "c", "c", "c"]):
        world.do(Enqueue(job_id=f"task-{number}", kind="build", queue=queue))
    world.do(CancelJob(job_id="task-5"))
    world.do(ClaimNext(owner="ann", queue="c"))
    world.do(ClaimJob(job_id="job", owner="ann"))
    world.do(AcquireLock(job_id="lock", owner="ann"))
    for session_id in ("s", "t"):
        world.do(OpenSession(session_id=session_id, agent="ann"))
    world.do(CloseSession(session_id="t", lease_id=None))
    figures = world.ask(GetFigures())
    assert (figures.claimed, figures.dead, figures.open_sessions, figures.seq) == (3, 1, 1, len(world.log()))
    assert figures.queued == {"a": 1, "b": 2, "c": 1}
    assert figures.waiting == 4


def test_expired_claims_and_sessions_do_not_count(world: World) -> None:
    world.do(ClaimJob(job_id="job", owner="ann", ttl=10))
    world.do(OpenSession(session_id="s", agent="ann", ttl=10))
    world.do(ClaimJob(job_id="bound", owner="ann", session_id="s"))
    world.do(AcquireLock(job_id="lock", owner="ann", session_id="s", ephemeral=True))
    world.do(ClaimJob(job_id="longer", owner="ann", ttl=11))
    assert (world.ask(GetFigures()).claimed, world.ask(GetFigures()).open_sessions) == (4, 1)
    world.advance(10)
    assert (world.ask(GetFigures()).claimed, world.ask(GetFigures()).open_sessions) == (1, 0)
    assert world.ask(GetFigures()).taken_back == 3
    assert "expired" not in world.event_types(), "nothing has recorded the expiry"


def test_when_the_longest_waiting_job_became_due(world: World) -> None:
    world.do(Enqueue(job_id="later", kind="build", run_at=world.clock.now_ms + 5_000))
    assert world.ask(GetFigures()).oldest_due_at is None
    world.advance(6)
    world.do(Enqueue(job_id="now", kind="build"))
    assert world.ask(GetFigures()).oldest_due_at == to_datetime(world.clock.now_ms - 1_000)


def test_when_all_workers_died_their_jobs_count_as_waiting(world: World) -> None:
    """No one is left to record the expiry."""
    world.do(OpenSession(session_id="s", agent="ann", ttl=10))
    for job_id, session_id in (("own", None), ("bound", "s")):
        world.do(Enqueue(job_id=job_id, kind="build"))
        world.do(ClaimJob(job_id=job_id, owner="ann", ttl=10, session_id=session_id))
    world.advance(1_000)
    figures = world.ask(GetFigures())
    assert (figures.claimed, figures.waiting, figures.taken_back) == (0, 2, 2)
    assert figures.oldest_due_at == to_datetime(world.clock.now_ms - 990_000)


def test_claims_are_late_after_two_thirds_of_their_ttl(world: World) -> None:
    world.do(ClaimJob(job_id="own", owner="ann", ttl=9))
    session = world.do(OpenSession(session_id="s", agent="ann", ttl=9))
    world.do(ClaimJob(job_id="bound", owner="ann", session_id="s"))
    world.advance(5.999)
    assert world.ask(GetFigures()).late == 0
    world.advance(0.001)
    assert world.ask(GetFigures()).late == 2
    world.do(KeepSessionAlive(session_id="s", lease_id=session.lease_id))
    assert world.ask(GetFigures()).late == 1
    world.advance(5)
    assert world.ask(GetFigures()).late == 0, "an expired claim is not late"


def test_lost_claims_count_for_an_hour(world: World) -> None:
    world.do(ClaimJob(job_id="lost", owner="ann", ttl=10))
    world.do(ClaimJob(job_id="taken", owner="ann", ttl=3_600))
    world.do(ForceReleaseJob(job_id="taken"))
    world.advance(11)
    world.do(Recover())
    assert world.ask(GetFigures()).taken_back == 2
    world.advance(3_600)
    assert world.ask(GetFigures()).taken_back == 0


def test_only_the_longest_queues_are_listed(world: World) -> None:
    jobs = [(queue, place) for queue in range(FIGURES_QUEUES + 5) for place in range(2 if queue % 2 else 1)]
    # The last queue first, so that order of arrival cannot explain the result.
    world.batch([Enqueue(job_id=f"{q}/{p}", kind="build", queue=f"queue-{q:03}") for q, p in reversed(jobs)])
    queued = world.ask(GetFigures()).queued
    expected = sorted({q for q, _ in jobs}, key=lambda q: (q % 2 == 0, q))[:FIGURES_QUEUES]
    assert list(queued.items()) == [(f"queue-{q:03}", 2 if q % 2 else 1) for q in expected]


def test_a_file_has_one_key_for_every_process(tmp_path: Path) -> None:
    worlds = [World(SqliteBackend(tmp_path / f"{name}.db")) for name in ("one", "one", "other")]
    keys = [world.ask(GetStoreKey()).key for world in worlds]
    for world in worlds:
        world.backend.close()
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]
    assert [len(key) for key in keys] == [32] * 3
    worlds[0].backend = SqliteBackend(tmp_path / "one.db")
    assert worlds[0].ask(GetStoreKey()).key == keys[0]
    worlds[0].backend.close()
