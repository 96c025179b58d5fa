"""A log that is not sound is detected, and the report says what is wrong with it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from octostore.core.commands import (
    ClaimJob,
    ClaimTask,
    Enqueue,
    HandOverSession,
    OpenSession,
    Recover,
    ReleaseJob,
    ReleaseTask,
)
from octostore.core.events import Event, public_event, stored_event
from octostore.core.questions import GetJob, GetSession, ListJobs, ListSessions
from octostore.core.session_keys import SessionKey
from octostore.core.verify import Verification, Verifier, named
from tests.support.world import World


@pytest.fixture
def lived(world: World) -> World:
    """A store in which a bit of everything has happened."""
    world.do(Enqueue(job_id="task", kind="build", payload=b"1"))
    claimed = world.do(ClaimTask(session_id="s", owner="ann", queues=("default",), metadata=b'{"x":[1,null]}'))
    world.do(HandOverSession(session_id="s", lease_id=claimed.lease_id, to_agent="bob"))
    taken = world.do(ClaimTask(session_id="s", owner="bob", queues=("default",)))
    world.do(ReleaseTask(session_id="s", job_id="task", lease_id=taken.lease_id or "", outcome="done", result=b"2"))
    first = world.do(ClaimJob(job_id="lock", owner="ann", ttl=5))
    world.do(ReleaseJob(job_id="lock", lease_id=first.lease_id or ""))
    world.do(ClaimJob(job_id="lock", owner="bob", ttl=5))
    world.advance(6)
    world.do(Recover())
    world.do(ClaimJob(job_id="lock", owner="eve", ttl=500))
    world.do(OpenSession(session_id="t", agent="eve"))
    return world


def followed(world: World, change: Callable[[list[Event]], list[Event]] = list) -> Verifier:
    verifier = Verifier()
    for event in change(world.events()):
        verifier.take(event)
    return verifier


def verdict(world: World, change: Callable[[list[Event]], list[Event]] = list) -> Verification:
    verifier = followed(world, change)
    jobs = world.ask(ListJobs()).jobs
    sessions = world.ask(ListSessions()).sessions
    for job in jobs:
        verifier.check_job(job)
    for session in sessions:
        verifier.check_session(session)
    verifier.report_missing("job", verifier.logged_jobs() - {job.job_id for job in jobs})
    return verifier.verdict()


def test_a_sound_log_has_no_problems(lived: World) -> None:
    verification = verdict(lived)
    assert verification.problems == []
    assert (verification.events, verification.jobs, verification.sessions) == (len(lived.log()), 2, 2)


def test_a_public_event_has_everything_that_is_stored(lived: World) -> None:
    for entry in lived.log():
        again = stored_event(public_event(entry))
        assert msgspec.json.decode(again.details) == msgspec.json.decode(entry.details)
        assert msgspec.structs.replace(again, details=b"") == msgspec.structs.replace(entry, details=b"")


def test_a_gap_is_found(lived: World) -> None:
    verification = verdict(lived, lambda events: [event for event in events if event.type != "session_opened"])
    assert "the log has a gap: event 3 follows event 1" in verification.problems


@pytest.mark.parametrize("kind", ["claimed", "done", "released", "expired", "session_closed", "session_handed_over"])
def test_a_missing_event_is_found(lived: World, kind: str) -> None:
    """The others are renumbered, so that there is no gap."""

    def without_the_last(events: list[Event]) -> list[Event]:
        last = max(event.seq for event in events if event.type == kind)
        kept = [event for event in events if event.seq != last]
        return [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(kept, 1)]

    assert not verdict(lived, without_the_last).is_sound


def test_a_claim_that_ends_twice_is_found(lived: World) -> None:
    def twice(events: list[Event]) -> list[Event]:
        ended = next(event for event in events if event.type == "expired")
        return [*events, msgspec.structs.replace(ended, seq=len(events) + 1)]

    assert any("ends claim" in problem for problem in verdict(lived, twice).problems)


def test_two_claims_at_once_are_found(lived: World) -> None:
    def twice(events: list[Event]) -> list[Event]:
        claimed = next(event for event in reversed(events) if event.type == "claimed")
        return [*events, msgspec.structs.replace(claimed, seq=len(events) + 1)]

    assert any("which has a live claim" in problem for problem in verdict(lived, twice).problems)


def test_a_stored_job_that_differs_from_the_log_is_found(lived: World) -> None:
    def with_another_kind(events: list[Event]) -> list[Event]:
        return [
            msgspec.structs.replace(event, data={**event.data, "kind": "test"}) if event.type == "enqueued" else event
            for event in events
        ]

    assert verdict(lived, with_another_kind).problems == [
        "job 'task': according to the log, kind is 'test', but 'build' is stored"
    ]


def test_what_is_only_stored_or_only_in_the_log_is_found(lived: World) -> None:
    strangers = World()
    strangers.do(ClaimJob(job_id="stranger", owner="ann"))
    problems = verdict(lived, lambda _events: strangers.events()).problems
    assert "job 'lock' is stored, but no event mentions it" in problems
    assert "session 'local/s' is stored, but no event mentions it" in problems
    assert "the log mentions job 'stranger', which is not stored" in problems


def test_an_unknown_event_is_reported_and_skipped(lived: World) -> None:
    def strange(events: list[Event]) -> list[Event]:
        return [msgspec.structs.replace(events[0], type="invented"), *events[1:]]

    problems = verdict(lived, strange).problems
    assert problems[0].startswith("event 1 (invented) does not fit the events before it")


def test_an_expiry_that_is_not_recorded_yet_is_not_a_problem(lived: World) -> None:
    lived.advance(1_000)
    assert lived.event_types()[-1] == "session_opened"
    assert verdict(lived).problems == []


LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "done"),
        ("queue", "other"),
        ("kind", "other"),
        ("priority", 9),
        ("attempts", 9),
        ("max_attempts", 9),
        ("available_at", LATER),
        ("created_at", LATER),
        ("owner", "mallory"),
        ("last_outcome", "cancelled"),
        ("error", "not in the log"),
        ("note", "not in the log"),
        ("previous", []),
    ],
)
def test_a_difference_in_any_field_of_a_job_is_found(lived: World, field: str, value: object) -> None:
    verifier = followed(lived)
    stored = lived.ask(GetJob(job_id="lock"))
    verifier.check_job(stored)
    assert verifier.problems == []
    verifier.check_job(msgspec.structs.replace(stored, **{field: value}))
    assert len(verifier.problems) == 1
    assert f"job 'lock': according to the log, {field} is " in verifier.problems[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("agent", "mallory"),
        ("status", "closed"),
        ("opened_at", LATER),
        ("context_seq", 1),
        ("context_bytes", 7_000),
        ("phase", "blocked"),
        ("offered", True),
        ("note", "not in the log"),
        ("in_flight", ["other"]),
        ("jobs", ["other"]),
    ],
)
def test_a_difference_in_any_field_of_a_session_is_found(lived: World, field: str, value: object) -> None:
    verifier = followed(lived)
    stored = lived.ask(GetSession(session_id="t"))
    verifier.check_session(stored)
    assert verifier.problems == []
    verifier.check_session(msgspec.structs.replace(stored, **{field: value}))
    assert len(verifier.problems) == 1
    assert f"session 'local/t': according to the log, {field} is " in verifier.problems[0]


def test_a_session_stored_under_another_principal_is_found(lived: World) -> None:
    verifier = followed(lived)
    verifier.check_session(msgspec.structs.replace(lived.ask(GetSession(session_id="t")), principal="mallory"))
    assert verifier.problems == ["session 'mallory/t' is stored, but no event mentions it"]


def test_a_log_without_the_principals_of_sessions_is_sound(lived: World) -> None:
    """As earlier versions wrote it: an id belonged to the first principal to use it, forever."""

    def without_principals(events: list[Event]) -> list[Event]:
        return [msgspec.structs.replace(event, session_principal=None) for event in events]

    assert verdict(lived, without_principals).problems == []
    lived.do(OpenSession(session_id="t", agent="eve", principal="guest"))

    def without_early_principals(events: list[Event]) -> list[Event]:
        return [*without_principals(events[:-1]), events[-1]]

    assert verdict(lived, without_early_principals).problems == []


def test_a_session_that_was_closed_has_not_expired(lived: World) -> None:
    verifier = followed(lived)
    closed = lived.ask(GetSession(session_id="s"))
    assert closed.status == "closed"
    verifier.check_session(msgspec.structs.replace(closed, status="expired"))
    assert verifier.problems == ["session 'local/s': according to the log, status is 'closed', but 'expired' is stored"]


@pytest.mark.parametrize("change", [{"how": "released"}, {"fencing_token": 1}])
def test_only_the_expiry_of_that_very_claim_may_be_unrecorded(lived: World, change: dict[str, Any]) -> None:
    lived.advance(1_000)
    stored = lived.ask(GetJob(job_id="lock"))
    verifier = followed(lived)
    verifier.check_job(stored)
    assert verifier.problems == []
    last, *others = stored.previous
    verifier.check_job(msgspec.structs.replace(stored, previous=[msgspec.structs.replace(last, **change), *others]))
    assert any("owner is 'eve'" in problem for problem in verifier.problems)


def test_the_end_of_a_claim_that_is_not_live_is_found(lived: World) -> None:
    live = lived.ask(GetJob(job_id="lock")).claim
    assert live is not None

    def stale(events: list[Event]) -> list[Event]:
        ended = next(event for event in events if event.type == "expired")
        return [*events, msgspec.structs.replace(ended, seq=len(events) + 1)]

    (problem, *_) = verdict(lived, stale).problems
    assert problem.endswith(f"on 'lock', whose live claim is {live.fencing_token}")


def test_claims_are_counted(lived: World) -> None:
    assert verdict(lived).claims == lived.event_types().count("claimed") == 5


def test_one_bad_event_is_one_problem(lived: World) -> None:
    def strange(events: list[Event]) -> list[Event]:
        return [*events[:-1], msgspec.structs.replace(events[-1], type="invented"), after(events)]

    def after(events: list[Event]) -> Event:
        return msgspec.structs.replace(events[-1], seq=len(events) + 1)

    problems = verdict(lived, strange).problems
    assert len(problems) == 1, "the event after it does not count as a gap"


def test_at_most_a_hundred_problems_are_reported(lived: World) -> None:
    verifier = followed(lived)
    verifier.report_missing("job", {f"job-{number:03}" for number in range(150)})
    assert len(verifier.problems) == 100
    assert not verifier.verdict().is_sound


def test_when_a_job_and_a_session_of_one_name_last_changed(world: World) -> None:
    world.do(OpenSession(session_id="same", agent="ann"))
    world.do(ClaimJob(job_id="same", owner="ann"))
    world.do(ClaimJob(job_id="bound", owner="ann", session_id="same"))
    last_change = followed(world).last_change
    assert (last_change["same"], last_change[named(SessionKey("local/same"))], last_change["bound"]) == (2, 3, 3)
