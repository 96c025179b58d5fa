"""Which jobs are listed first: the rule by itself, at times the test chooses."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.core.claim_replies import Attention
from octostore.core.claims_window import EndedClaim, Glance, attention_of, candidates, group_of, read_ends
from octostore.core.events import Cancelled, Details, Ended, LogEntry, encode_details
from octostore.core.model import LOSSES, HowEnded, Status
from octostore.core.questions import ListClaims

NOW, WINDOW_MS = 1_000_000, 100_000
SINCE = NOW - WINDOW_MS
LIVE = Glance("job", "claimed", claimed_at=NOW - 50, expires_at=NOW + 90, ttl_ms=90)


def changed(**changes: object) -> Glance:
    return msgspec.structs.replace(LIVE, **changes)


ATTENTION: list[tuple[Glance, Attention | None]] = [
    (LIVE, None),
    (changed(expires_at=NOW), "lost"),
    (changed(expires_at=NOW, last_progress_at=0, max_silence_ms=1), "lost"),
    (changed(last_progress_at=NOW - 40, max_silence_ms=40), "stuck"),
    (changed(last_progress_at=NOW - 39, max_silence_ms=40), None),
    (changed(expires_at=NOW + 30), "late"),
    (changed(expires_at=NOW + 31), None),
    (changed(expires_at=NOW + 1, last_progress_at=NOW - 40, max_silence_ms=40), "stuck"),
    (changed(is_stopping=True), "stopping"),
    (changed(is_stopping=True, expires_at=NOW + 1), "late"),
    (changed(how="expired", ended_at=NOW - 50), None),
    (Glance("job", "free", how="force_released", ended_at=NOW), "lost"),
    (Glance("job", "queued", how="expired", ended_at=NOW), "lost"),
    (Glance("job", "dead", how="expired", ended_at=NOW), "dead"),
    (Glance("job", "done", how="expired", ended_at=NOW), None),
    (Glance("job", "queued", how="failed", ended_at=NOW), "failed"),
    (Glance("job", "dead", how="failed", ended_at=NOW), "dead"),
    (Glance("job", "queued", how="deferred", ended_at=NOW), None),
    (Glance("job", "free", how="released", ended_at=NOW), None),
]


@pytest.mark.parametrize(("glance", "expected"), ATTENTION)
def test_why_a_job_needs_attention(glance: Glance, expected: Attention | None) -> None:
    assert attention_of(glance, NOW) == expected


def ended(job_id: str, how: HowEnded, ended_at: int, status: Status, *, owner: str = "ann", seq: int = 1) -> EndedClaim:
    details = Ended(owner, 1, 1, ended_at - 5, ended_at - 1, status, ended_at, 1, ended_at)
    return EndedClaim(LogEntry(seq, ended_at, how, "local", job_id, None, None, encode_details(details)), details)


MOMENTS = st.integers(NOW - 2 * WINDOW_MS, NOW)
NAMES = st.sampled_from("abcdefgh")
CLAIMS = st.builds(
    Glance,
    NAMES,
    st.just("claimed"),
    claimed_at=MOMENTS,
    ttl_ms=st.integers(1, 1_000),
    expires_at=st.integers(NOW - 2 * WINDOW_MS, NOW + WINDOW_MS),
    max_silence_ms=st.none() | st.integers(1, WINDOW_MS),
    last_progress_at=st.none() | MOMENTS,
    is_stopping=st.booleans(),
)
ENDS = st.builds(ended, NAMES, st.sampled_from(get_args(HowEnded)), MOMENTS, st.sampled_from(get_args(Status)))
GROUPS = ["lost", "stuck", "late", "stopping", "taken over", "live", "failed", "dead", "ended"]


@given(st.lists(CLAIMS, unique_by=lambda claim: claim.job_id), st.lists(ENDS), st.randoms())
def test_the_most_urgent_come_first(live: list[Glance], ends: list[EndedClaim], random: object) -> None:
    question = ListClaims(window=WINDOW_MS / 1_000)
    found = candidates(question, live, ends, NOW, SINCE)
    names = [glance.job_id for glance in found]
    assert len(set(names)) == len(names)
    lost = {one.entry.job_id for one in ends if one.entry.type in LOSSES}

    def group(one: Glance) -> str:
        if not one.is_live(NOW):
            return attention_of(one, NOW) or "ended"
        return attention_of(one, NOW) or ("taken over" if one.job_id in lost else "live")

    groups = [group(one) for one in found]
    assert groups == sorted(groups, key=GROUPS.index)
    assert all(attention_of(one, NOW) in {None, group_of(one, NOW)} for one in found)
    # Every job that was live in the window is listed, and nothing else but undone claims.
    in_window = {one.job_id for one in live if (one.expires_at or 0) >= SINCE}
    last = {one.entry.job_id or "": one.details.ended_at for one in ends if one.entry.type != "undone"}
    in_window |= {name for name, ended_at in last.items() if ended_at >= SINCE}
    undone = {one.entry.job_id or "" for one in ends if one.entry.type == "undone"}
    assert in_window <= set(names) <= in_window | undone
    random.shuffle(live)  # type: ignore[attr-defined]
    assert candidates(question, live, ends, NOW, SINCE) == found


@given(st.lists(CLAIMS, unique_by=lambda claim: claim.job_id), st.lists(ENDS))
def test_losses_come_newest_first(live: list[Glance], ends: list[EndedClaim]) -> None:
    found = candidates(ListClaims(window=WINDOW_MS / 1_000, lost=True), live, ends, NOW, SINCE)
    lost_at = [one.last_end(NOW) for one in found]
    assert lost_at == sorted(lost_at, reverse=True)
    expired = {one.job_id for one in live if (one.expires_at or 0) <= NOW}
    losers = {one.entry.job_id for one in ends if one.entry.type in LOSSES}
    assert {one.job_id for one in found} <= expired | losers
    assert all(SINCE <= moment <= NOW for moment in lost_at)


def test_live_claims_come_newest_first_and_ended_ones_last_ended_first() -> None:
    live = [changed(job_id=f"live-{n}", claimed_at=NOW - n) for n in (3, 1, 2)]
    ends = [ended("old", "done", NOW - 9, "done"), ended("new", "done", NOW - 2, "done")]
    found = candidates(ListClaims(window=100), live, ends, NOW, SINCE)
    assert [one.job_id for one in found] == ["live-1", "live-2", "live-3", "new", "old"]


def test_dead_letters_do_not_bury_what_is_live() -> None:
    """A takeover counts no matter who lost the job, even if only the new owner's claims are listed."""
    live = [changed(job_id="other"), changed(job_id="taken-over", claimed_at=NOW - 60)]
    ends = [ended(f"dead-{n}", "failed", NOW - n, "dead") for n in range(52)]
    ends += [ended("taken-over", "expired", NOW - 70, "queued", owner="bob"), ended("again", "failed", NOW, "queued")]
    found = candidates(ListClaims(window=100), live, ends, NOW, SINCE)
    assert [one.job_id for one in found][:5] == ["taken-over", "other", "again", "dead-0", "dead-1"]
    mine = candidates(ListClaims(window=100, owner="ann"), live, ends, NOW, SINCE)
    assert [one.job_id for one in mine][:2] == ["taken-over", "other"]


def test_an_undone_claim_hides_nothing() -> None:
    ends = [ended("job", "failed", NOW - 9, "queued"), ended("job", "undone", NOW - 2, "queued")]
    (found,) = candidates(ListClaims(window=100), [], ends, NOW, SINCE)
    assert (attention_of(found, NOW), found.ended_at) == ("failed", NOW - 9)


def test_cancelling_an_unclaimed_job_ends_no_claim() -> None:
    def entry(details: Details) -> LogEntry:
        return LogEntry(1, NOW, "cancelled", "local", "job", None, None, encode_details(details))

    claimed = Ended("ann", 1, 1, NOW - 5, NOW - 1, "dead", NOW, 1, NOW)
    assert read_ends([entry(Cancelled("not needed"))], SINCE) == []
    assert [one.details for one in read_ends([entry(claimed)], SINCE)] == [claimed]
