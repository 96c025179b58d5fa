"""Whether work gets done, judged by thresholds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from octostore.core.documents import NO_DOCUMENT
from octostore.core.errors import InvalidInput
from octostore.core.health import Threshold, Thresholds, judge, judged
from octostore.core.replies import Figures, SessionView

NOW = datetime(2026, 7, 1, 10, tzinfo=UTC)


def figures(**values: Any) -> Figures:
    nothing: dict[str, Any] = dict.fromkeys(("claimed", "late", "dead", "open_sessions", "waiting", "taken_back"), 0)
    return Figures(**{**nothing, "oldest_due_at": None, "queued": {}, "seq": 0, "at": NOW, **values})


def test_nothing_to_do_is_fine() -> None:
    health = judge(figures(), [], Thresholds())
    assert (health.status, health.reasons, health.oldest_waiting_seconds) == ("ok", [], None)


@pytest.mark.parametrize(
    ("values", "status", "reason"),
    [
        ({"late": 1}, "degraded", "1 claim is late with heartbeats"),
        ({"late": 10}, "unhealthy", "10 claims are late with heartbeats"),
        ({"dead": 1}, "degraded", "1 dead job needs attention"),
        ({"dead": 100}, "unhealthy", "100 dead jobs need attention"),
        ({"taken_back": 5}, "degraded", "5 claims expired or were taken away in the last hour"),
        ({"taken_back": 50}, "unhealthy", "50 claims expired or were taken away in the last hour"),
        ({"oldest_due_at": NOW - timedelta(minutes=5)}, "degraded", "a job has been waiting for 300 s"),
        ({"oldest_due_at": NOW - timedelta(hours=1)}, "unhealthy", "a job has been waiting for 3,600 s"),
    ],
)
def test_a_figure_at_its_threshold_is_a_reason(values: dict[str, Any], status: str, reason: str) -> None:
    health = judge(figures(**values), [], Thresholds())
    assert (health.status, health.reasons) == (status, [reason])
    judged_figures = judged(figures(**values))
    assert (judged_figures.status, judged_figures.reasons) == (status, [reason])


def test_just_below_is_still_fine() -> None:
    below = figures(taken_back=4, oldest_due_at=NOW - timedelta(seconds=299), waiting=1_000_000)
    assert judge(below, [], Thresholds()).status == "ok"


def test_the_worst_reason_comes_first() -> None:
    health = judge(figures(dead=500, late=1), [], Thresholds())
    assert health.status == "unhealthy"
    assert health.reasons == ["500 dead jobs need attention", "1 claim is late with heartbeats"]


def test_thresholds_can_be_set() -> None:
    strict = Thresholds(waiting=Threshold(10, 20), late=Threshold(None, 5))
    assert judge(figures(waiting=10), [], strict).status == "degraded"
    assert judge(figures(waiting=20), [], strict).status == "unhealthy"
    assert judge(figures(late=4), [], strict).status == "ok"
    with pytest.raises(InvalidInput, match="threshold"):
        Threshold(2, 1)


def test_just_below_unhealthy_is_degraded() -> None:
    nearly = {"late": 9, "dead": 99, "taken_back": 49, "oldest_due_at": NOW - timedelta(seconds=3_599)}
    for field, value in nearly.items():
        assert judge(figures(**{field: value}), [], Thresholds()).status == "degraded", field


def test_health_includes_every_figure() -> None:
    counted = figures(claimed=1, late=2, dead=3, open_sessions=4, waiting=5, taken_back=6, oldest_due_at=NOW)
    health = judge(counted, [], Thresholds())
    assert (health.running, health.late, health.dead, health.open_sessions) == (1, 2, 3, 4)
    assert (health.queued, health.takeovers_last_hour, health.oldest_waiting_seconds) == (5, 6, 0)


@pytest.mark.parametrize(("age", "is_late"), [(-1, False), (0, False), (39.999, False), (40, True), (59, True)])
def test_a_session_is_late_after_two_thirds_of_its_ttl(age: float, is_late: bool) -> None:
    beat = NOW - timedelta(seconds=age)
    session = SessionView(
        session_id="s",
        agent="ann",
        principal="local",
        status="open",
        opened_at=beat,
        heartbeat_at=beat,
        expires_at=beat + timedelta(seconds=60),
        raw_context=NO_DOCUMENT,
        context_seq=None,
        jobs=["task"],
        phase="executing",
    )
    (seen,) = judge(figures(), [session], Thresholds()).sessions
    assert (seen.session_id, seen.agent, seen.phase, seen.jobs) == ("s", "ann", "executing", ["task"])
    assert (seen.is_late, seen.heartbeat_age_seconds) == (is_late, max(0, age))


def test_with_equal_thresholds_the_status_is_unhealthy() -> None:
    assert judge(figures(late=3), [], Thresholds(late=Threshold(3, 3))).status == "unhealthy"
