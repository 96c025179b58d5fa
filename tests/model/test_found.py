"""Bugs that the model found in the real system, each with the shortest history that shows it."""

import pytest

from octostore.core import commands as c
from octostore.core.errors import LeaseLost
from octostore.core.questions import GetJob
from tests.model.histories import SideBySide

TASK = c.ClaimTask(session_id="s", owner="ann", queues=("default",), request_id="r")


@pytest.fixture
def both() -> SideBySide:
    return SideBySide()


def test_a_lease_that_had_a_task_twice_can_repeat_its_last_release(both: SideBySide) -> None:
    """Only its first attempt was checked."""
    both.run([c.Enqueue(job_id="a", kind="build")])
    (first,) = both.run([TASK])
    names = {"job_id": "a", "lease_id": first.lease_id}
    both.run([c.Undo(**names)])
    both.run([TASK])
    ended = both.run([c.ReleaseJob(**names, outcome="failed")])
    assert both.run([c.ReleaseJob(**names, outcome="failed")]) == ended
    (lost,) = both.run([c.HeartbeatJob(**names)])
    assert isinstance(lost, LeaseLost)
    assert lost.ended is not None
    assert lost.ended.how == "failed"


def test_a_hand_over_cannot_be_repeated_after_the_session_has_ended(both: SideBySide) -> None:
    """The reply said that the other agent still had it."""
    (session,) = both.run([c.OpenSession(session_id="s", agent="ann")])
    given = c.HandOverSession(session_id="s", lease_id=session.lease_id, to_agent="bob")
    both.run([given])
    (taken,) = both.run([c.OpenSession(session_id="s", agent="bob")])
    both.run([c.CloseSession(session_id="s", lease_id=taken.lease_id)])
    (lost,) = both.run([given])
    assert isinstance(lost, LeaseLost)


def test_a_late_repeat_of_a_claim_gets_the_result_of_a_done_job_even_with_again(both: SideBySide) -> None:
    """It got `LeaseLost`."""
    claim = c.ClaimJob(job_id="a", owner="ann", request_id="r", again=True)
    (first,) = both.run([claim])
    both.run([c.ReleaseJob(job_id="a", lease_id=first.lease_id, outcome="done", result=b"7")])
    (late,) = both.run([claim])
    assert (late.status, late.result) == ("done", 7)


def test_a_late_repeat_learns_how_an_attempt_ended_that_the_job_no_longer_keeps(both: SideBySide) -> None:
    """A bug in the model: it returned a note that no store keeps. Seen once in several hundred runs."""
    claim = c.ClaimJob(job_id="a", owner="ann", request_id="r")
    (first,) = both.run([claim])
    both.run([c.HeartbeatJob(job_id="a", lease_id=first.lease_id, note="half")])
    both.run([c.ReleaseJob(job_id="a", lease_id=first.lease_id)])
    for _ in range(5):
        (later,) = both.run([c.ClaimJob(job_id="a", owner="bob")])
        both.run([c.ReleaseJob(job_id="a", lease_id=later.lease_id)])
    (late,) = both.run([claim])
    assert isinstance(late, LeaseLost)
    assert late.ended is not None
    assert (late.ended.how, late.ended.note) == ("released", None)


def test_undone_claims_leave_a_done_job_unchanged(both: SideBySide) -> None:
    """Five undone claims pushed its real attempts out of its history, and changed its number of attempts."""
    (failed,) = both.run([c.ClaimJob(job_id="a", owner="ann")])
    both.run([c.ReleaseJob(job_id="a", lease_id=failed.lease_id, outcome="failed", error="disk full")])
    (done,) = both.run([c.ClaimJob(job_id="a", owner="bob")])
    both.run([c.ReleaseJob(job_id="a", lease_id=done.lease_id, outcome="done")])
    before = both.real.ask(GetJob(job_id="a"))
    for _ in range(6):
        (claim,) = both.run([c.ClaimJob(job_id="a", owner="cat", again=True)])
        both.run([c.Undo(job_id="a", lease_id=claim.lease_id)])
    both.compare_reads()
    after = both.real.ask(GetJob(job_id="a"))
    assert (after.status, after.attempts) == (before.status, before.attempts) == ("done", 2)
    assert [attempt.how for attempt in after.previous[-2:]] == ["done", "failed"]


def test_undoing_the_opening_of_a_handed_over_session_does_not_undo_its_claims(both: SideBySide) -> None:
    """The claims were undone, and the session was closed."""
    both.run([c.Enqueue(job_id="a", kind="build")])
    (first,) = both.run([TASK])
    both.run([c.HandOverSession(session_id="s", lease_id=first.lease_id, to_agent="bob")])
    (taken,) = both.run([c.OpenSession(session_id="s", agent="bob")])
    (undone,) = both.run([c.Undo(session_id="s", lease_id=taken.lease_id)])
    assert not undone.undone
    assert both.real.ask(GetJob(job_id="a")).owner == "bob"
