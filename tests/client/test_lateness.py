"""On a busy machine processes run late, so clients keep a larger safety margin of their leases."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import octostore
from octostore.client import lateness as module
from octostore.client.authority import Authority
from octostore.client.lateness import (
    DELAY_MAX_SECONDS,
    HALF_LIFE_SECONDS,
    MARGIN_SHARE_MAX,
    SAFETY,
    Lateness,
    check_ttl_is_safe,
    safety_margin,
    smallest_ttl,
)
from octostore.core.errors import InvalidInput
from octostore.stores.clock import boottime

delays = st.floats(0, DELAY_MAX_SECONDS)


def late_by(seconds: float, now: float = 0) -> Lateness:
    lateness = Lateness()
    lateness.note(now - seconds, now)
    return lateness


def test_the_longest_delay_counts_and_decays() -> None:
    lateness = late_by(0.4)
    assert not lateness.note(9.9, 10.0), "an earlier one was longer"
    assert lateness.worst(0 + HALF_LIFE_SECONDS) == pytest.approx(0.2)
    assert lateness.worst(3 * HALF_LIFE_SECONDS) == pytest.approx(0.05)
    assert lateness.note(29.5, 30.0), "this is now the longest"
    assert lateness.worst(30) == 0.5


def test_a_paused_process_does_not_count_as_a_busy_machine() -> None:
    assert late_by(3_600).worst(0) == DELAY_MAX_SECONDS


def test_lateness_is_measured_by_sleeping() -> None:
    lateness = Lateness()
    assert not lateness.is_known(boottime())
    lateness.measure()
    assert lateness.is_known(boottime())
    assert 0 < lateness.worst(boottime()) <= DELAY_MAX_SECONDS


@given(asked_at=st.floats(0, 1_000), ttl_ms=st.integers(1_000, 86_400_000), delay=delays, later=st.floats(0, 100_000))
def test_while_there_is_authority_the_next_turn_comes_before_the_lease_expires(
    asked_at: float, ttl_ms: int, delay: float, later: float
) -> None:
    """If it is at most three times as late as the worst before."""
    now = asked_at + later
    authority = Authority(lambda: now, late_by(delay, now))
    authority.renew(asked_at, ttl_ms)
    ttl = ttl_ms / 1_000
    if authority.remaining() > 0 and ttl >= smallest_ttl(delay):
        assert now + SAFETY * delay < asked_at + ttl
    if now < asked_at + ttl / 2:
        assert authority.remaining() > 0, "a lease that is renewed in time is kept on a busy machine too"


@given(ttl=st.floats(1, 86_400), first=delays, second=delays)
def test_a_ttl_is_refused_exactly_if_its_safety_margin_is_too_small(ttl: float, first: float, second: float) -> None:
    needed = SAFETY * (first + second)
    assert safety_margin(ttl, first, second) <= ttl * MARGIN_SHARE_MAX
    smallest = smallest_ttl(first, second)
    assert needed <= smallest * MARGIN_SHARE_MAX + 1e-9
    assert smallest * MARGIN_SHARE_MAX < needed + 0.1, "no more than needed"
    if ttl >= smallest:
        check_ttl_is_safe(ttl, first, second)
    else:
        with pytest.raises(InvalidInput, match=f"{smallest:g} seconds") as refused:
            check_ttl_is_safe(ttl, first, second)
        assert (refused.value.field, refused.value.limit, refused.value.size) == ("ttl", smallest, ttl)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    now = boottime()
    monkeypatch.setattr(module, "own_lateness", late_by(0.6, now))


@pytest.mark.usefixtures("busy")
def test_blocks_and_workers_refuse_a_ttl_that_cannot_be_kept_before_they_claim(tmp_path: Path) -> None:
    with octostore.connect(f"sqlite:///{tmp_path}/octostore.db") as store:
        store.enqueue("kind")
        with pytest.raises(InvalidInput, match=r"shortest safe TTL right now is [56]"), store.hold("job", ttl=5):
            pass
        with pytest.raises(InvalidInput, match="is too short"):
            store.work("default", print, ttl=5, until_empty=True)
        with store.hold("job", ttl=120) as claim:
            assert claim.remaining() > 0
        assert [event.type for event in store.events()] == ["enqueued", "claimed", "released"]


@pytest.mark.usefixtures("busy")
def test_asyncio_blocks_and_workers_refuse_such_a_ttl_too(tmp_path: Path) -> None:
    async def handle(_claim: object) -> None: ...

    async def try_all() -> None:
        async with await octostore.connect_async(f"sqlite:///{tmp_path}/octostore.db") as store:
            with pytest.raises(InvalidInput, match="is too short"):
                async with store.hold("job", ttl=5):
                    pass
            with pytest.raises(InvalidInput, match="is too short"):
                await store.work("default", handle, ttl=5, until_empty=True)

    asyncio.run(try_all())
