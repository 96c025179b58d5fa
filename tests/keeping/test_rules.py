"""When a keeper releases a claim, with all times set by the test."""

from hypothesis import given
from hypothesis import strategies as st

from octostore.keeping.processes import Process
from octostore.keeping.rules import Silence, why_to_end
from tests.keeping.test_leases import lease

LIMIT = 600.0
seconds = st.floats(0, 10_000)


def test_the_claim_itself_counts_as_activity() -> None:
    silence = Silence(LIMIT, now=50)
    assert silence.left(50) == LIMIT
    assert silence.left(50 + LIMIT - 1) == 1
    assert silence.left(50 + LIMIT) == silence.left(10**6) == 0


def test_activity_counts_from_when_it_happened_not_from_when_it_was_seen() -> None:
    silence = Silence(LIMIT, now=0)
    silence.note(1_100.0, clock=1_500.0, now=500)  # 400 s ago
    assert silence.left(500) == LIMIT - 400


def test_the_same_activity_counts_once() -> None:
    silence = Silence(LIMIT, now=0)
    silence.note(1_000.0, clock=1_000.0, now=100)
    silence.note(1_000.0, clock=1_300.0, now=400)
    assert silence.left(400) == LIMIT - 300
    silence.note(None, clock=1_300.0, now=400)
    assert silence.left(400) == LIMIT - 300


def test_setting_the_clock_releases_no_claim() -> None:
    ahead = Silence(LIMIT, now=0)
    ahead.note(1_000.0, clock=1_000.0, now=0)
    ahead.note(1_000.0, clock=9_000_000.0, now=10)
    assert ahead.left(10) == LIMIT - 10, "the jump of the clock does not count as silence"
    back = Silence(LIMIT, now=0)
    back.note(9_000_000.0, clock=1_000.0, now=10)
    assert back.left(10) == LIMIT, "activity in the future counts as now"
    jumped = Silence(LIMIT, now=0)
    jumped.note(1_000.0, clock=9_000_000.0, now=10)
    assert jumped.left(10) == LIMIT - 10, "no activity is older than the claim"


@given(activities=st.lists(st.tuples(seconds, seconds)), later=seconds)
def test_an_active_owner_never_counts_as_silent(activities: list[tuple[float, float]], later: float) -> None:
    """Only the last activity counts, however late the keeper looks."""
    silence, now, last = Silence(LIMIT, now=0), 0.0, 0.0
    for pause, age in activities:
        now += pause
        shown = max(last, now - age)
        silence.note(1_000 + shown, clock=1_000 + now, now=now)
        last = shown
    expected = max(0.0, last + LIMIT - now - later)
    assert abs(silence.left(now + later) - expected) < 0.01


def test_the_reasons_for_a_release() -> None:
    kept = lease(owner="ann")
    usual = {"is_filed": True, "is_watched_gone": False, "silence_left": 1.0, "is_asked_to_stop": False}

    def why(**other: bool | float) -> str | None:
        return why_to_end(kept, **{**usual, **other})  # type: ignore[arg-type]

    assert why() is None
    assert "deleted" in (why(is_filed=False) or "")
    assert "no octostore command from ann for 600 s" in (why(silence_left=0) or "")
    assert "asked to stop" in (why(is_asked_to_stop=True) or "")
    assert str(Process(7, "", "claude")) == "claude (7)"
    assert "has ended" in (why(is_watched_gone=True) or "")
