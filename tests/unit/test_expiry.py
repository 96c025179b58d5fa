"""A job whose lease expired has no owner at once; the next write records the expiry, with the evidence."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from octostore.core.commands import (
    AnyCommand,
    ClaimJob,
    ClaimNext,
    Enqueue,
    HeartbeatJob,
    KeepSessionAlive,
    OpenSession,
    Probe,
    Recover,
)
from octostore.core.errors import LeaseLost
from octostore.core.moments import to_datetime
from octostore.core.questions import GetJob, GetSession, ListJobs
from octostore.core.retry import RetryPolicy
from tests.support.world import World


def test_reads_show_an_expiry_before_it_is_recorded(world: World) -> None:
    world.do(ClaimJob(job_id="lock", owner="ann", ttl=10))
    world.do(Enqueue(job_id="task", kind="build"))
    world.do(ClaimNext(owner="bob", ttl=10))
    world.advance(10)
    assert world.ask(GetJob(job_id="lock")).status == "free"
    assert world.ask(GetJob(job_id="task")).status == "queued"
    assert world.ask(ListJobs(status="claimed")).jobs == []
    assert [job.job_id for job in world.ask(ListJobs(status="queued")).jobs] == ["task"]
    assert [job.job_id for job in world.ask(ListJobs(status="free")).jobs] == ["lock"]
    assert "expired" not in world.event_types()


def test_any_write_records_an_expiry_with_the_evidence(world: World) -> None:
    first = world.do(ClaimJob(job_id="job", owner="ann", ttl=10))
    world.advance(4)
    world.do(HeartbeatJob(job_id="job", lease_id=first.lease_id or "", note="step 2"))
    world.advance(13)
    world.do(ClaimJob(job_id="another", owner="bob"))
    entry = world.log()[1]
    details = json.loads(entry.details)
    assert (entry.type, entry.job_id, entry.actor) == ("expired", "job", "octostore")
    assert (details["owner"], details["fencing_token"]) == ("ann", first.fencing_token)
    assert (details["ttl_ms"], details["late_ms"], details["note"]) == (10_000, 3_000, "step 2")
    assert details["ended_at"] - details["heartbeat_at"] == 10_000


def test_a_write_records_at_most_a_hundred_expiries_and_recover_records_all(world: World) -> None:
    world.batch([ClaimJob(job_id=f"job-{n:03}", owner="ann", ttl=10) for n in range(250)])
    world.advance(10)
    world.do(ClaimJob(job_id="x", owner="bob"))
    assert world.event_types().count("expired") == 100
    step = world.do(Recover())
    assert (len(step.recovered), step.is_complete) == (150, True)
    assert world.event_types().count("expired") == 250
    assert world.do(Recover()).recovered == []


def test_a_large_recovery_goes_step_by_step(world: World) -> None:
    world.batch([ClaimJob(job_id=f"job-{n:04}", owner="ann", ttl=10) for n in range(1_300)])
    world.advance(10)
    steps = [world.do(Recover()) for _ in range(2)]
    assert [(len(step.recovered), step.is_complete) for step in steps] == [(1_000, False), (300, True)]


def test_recover_reports_the_evidence(world: World) -> None:
    claim = world.do(ClaimJob(job_id="job", owner="ann", ttl=10))
    world.advance(25)
    (recovery,) = world.do(Recover()).recovered
    assert (recovery.job_id, recovery.owner, recovery.fencing_token) == ("job", "ann", claim.fencing_token)
    assert (recovery.ttl, recovery.late_ms, recovery.status) == (10, 15_000, "free")
    assert recovery.expired_at == claim.expires_at


def test_an_expired_task_has_used_up_an_attempt_and_is_retried_with_backoff() -> None:
    world = World(retry=RetryPolicy(base_ms=4_000, jitter=0))
    world.do(Enqueue(job_id="task", kind="build", max_attempts=2))
    world.do(ClaimNext(owner="ann", ttl=10))
    world.advance(10)
    reply = world.do(ClaimJob(job_id="task", owner="bob"))
    assert (reply.status, reply.retry_after_ms) == ("delayed", 4_000)
    world.advance(4)
    assert world.do(ClaimNext(owner="bob", ttl=10)).attempt == 2
    world.advance(10)
    assert world.ask(GetJob(job_id="task")).status == "dead"
    (recovery,) = world.do(Recover()).recovered
    assert recovery.status == "dead"


def test_backoff_after_an_expiry_counts_from_the_expiry_not_from_its_discovery() -> None:
    world = World(retry=RetryPolicy(base_ms=4_000, jitter=0))
    world.do(Enqueue(job_id="task", kind="build"))
    world.do(ClaimNext(owner="ann", ttl=10))
    world.advance(3_600)
    assert world.do(ClaimNext(owner="bob")).job_id == "task"


def test_in_flight_jobs_keep_their_order_when_the_expiry_is_recorded(world: World) -> None:
    world.do(OpenSession(session_id="s", agent="ann", ttl=10))
    world.do(ClaimJob(job_id="b", owner="ann", session_id="s"))
    world.do(ClaimJob(job_id="a", owner="ann", session_id="s"))
    world.advance(10)
    assert world.ask(GetSession(session_id="s")).in_flight == ["b", "a"]
    world.do(Recover())
    assert world.ask(GetSession(session_id="s")).in_flight == ["b", "a"]


def test_the_next_job_is_found_behind_more_expiries_than_one_write_records(world: World) -> None:
    world.batch([ClaimJob(job_id=f"lock-{n:03}", owner="ann", ttl=1) for n in range(150)])
    world.do(Enqueue(job_id="task", kind="build"))
    world.do(ClaimNext(owner="ann", ttl=2))
    world.advance(60)
    assert world.do(ClaimNext(owner="bob")).job_id == "task"


def test_claiming_the_next_job_does_not_pay_for_a_mass_death_in_its_queue(world: World) -> None:
    world.batch([Enqueue(job_id=f"task-{n:04}", kind="build") for n in range(450)])
    world.batch([ClaimNext(owner="ann", ttl=10) for _ in range(450)])
    world.advance(3_600)
    assert world.do(ClaimNext(owner="bob")).status == "claimed"
    assert world.event_types().count("expired") <= 200


def test_a_read_shows_the_latest_possible_time_of_an_unrecorded_retry() -> None:
    world = World(retry=RetryPolicy(base_ms=4_000, jitter=0.5))
    world.do(Enqueue(job_id="task", kind="build"))
    world.do(ClaimNext(owner="ann", ttl=10))
    world.advance(10)
    seen = world.ask(GetJob(job_id="task")).available_at
    world.do(Recover())
    recorded = world.ask(GetJob(job_id="task")).available_at
    assert seen is not None
    assert recorded is not None
    assert recorded <= seen


def test_the_evidence_of_a_bound_claim_is_its_sessions_last_heartbeat(world: World) -> None:
    session = world.do(OpenSession(session_id="s", agent="ann", ttl=10))
    world.do(ClaimJob(job_id="job", owner="ann", session_id="s"))
    world.advance(5)
    world.do(KeepSessionAlive(session_id="s", lease_id=session.lease_id))
    world.advance(13)
    world.do(Recover())
    expired, session_expired = world.events()[2:]
    assert (expired.type, session_expired.type) == ("expired", "session_expired")
    for event in (expired, session_expired):
        assert (event.data["ended_at"] - event.data["heartbeat_at"]).total_seconds() == 10
        assert (event.at - event.data["ended_at"]).total_seconds() == 3
        assert (event.data["ttl_ms"], event.data["late_ms"]) == (10_000, 3_000)
    assert world.ask(GetSession(session_id="s")).expires_at == session_expired.data["ended_at"]


@settings(max_examples=30)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=6), st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_expiries_are_recorded_in_the_order_they_happened(claims: list[int], sessions: list[int]) -> None:
    world = World()
    world.batch([ClaimJob(job_id=f"job-{n}", owner="ann", ttl=ttl) for n, ttl in enumerate(claims)])
    world.batch([OpenSession(session_id=f"s-{n}", agent="ann", ttl=ttl) for n, ttl in enumerate(sessions)])
    world.advance(10)
    # Jobs and sessions that commands name are loaded first, in any order.
    late: list[AnyCommand] = [HeartbeatJob(job_id=f"job-{n}", lease_id="late") for n in range(len(claims))]
    late += [KeepSessionAlive(session_id=f"s-{n}", lease_id="late") for n in range(len(sessions))]
    assert {type(reply) for reply in world.batch(late)} == {LeaseLost}
    events = world.events(len(claims) + len(sessions))
    for kind, ttls in (("expired", claims), ("session_expired", sessions)):
        ended = [event.data["ended_at"] for event in events if event.type == kind]
        assert len(ended) == len(ttls)
        assert ended == sorted(ended)


def test_a_probe_makes_time_durable_and_nothing_else(world: World) -> None:
    world.do(Recover())  # the first write after the machine starts is always saved
    world.advance(10)
    world.do(Probe())
    world.advance(-10)
    claimed_at = world.do(ClaimJob(job_id="job", owner="ann")).claimed_at
    assert claimed_at == to_datetime(world.clock.now_ms + 10_000)
    assert world.event_types() == ["claimed"]
