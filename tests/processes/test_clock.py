"""Time in a store never runs backwards and never stops for long, whatever the clocks do."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from octostore.stores.clock import Mark, SystemClock
from tests.support.embedded import open_with_clock
from tests.support.soundness import assert_sound
from tests.support.world import START_MS, ManualClock

HOUR_MS = 3_600_000
NO_MARK = Mark(0, "", 0)


class Machine:
    """A machine's two clocks: the wall clock, which people set, and the one that only counts."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.counted_ms = 1_000
        self.boot_id = "first"

    def advance(self, milliseconds: int) -> None:
        self.wall_ms += milliseconds
        self.counted_ms += milliseconds

    def reboot(self) -> None:
        self.counted_ms = 0
        self.boot_id = "second"

    def clock(self) -> SystemClock:
        return SystemClock(lambda: self.wall_ms, lambda: self.counted_ms, self.boot_id)


def test_time_keeps_its_pace_when_the_clock_is_set_back() -> None:
    machine = Machine()
    mark = machine.clock()(NO_MARK)
    assert mark.now == START_MS
    machine.wall_ms -= HOUR_MS
    for second in range(4):
        assert machine.clock()(mark).now == START_MS + second * 1_000
        machine.advance(1_000)


def test_time_follows_a_clock_that_is_set_forward() -> None:
    machine = Machine()
    mark = machine.clock()(NO_MARK)
    machine.wall_ms += HOUR_MS
    assert machine.clock()(mark).now == START_MS + HOUR_MS


def test_a_clock_that_was_set_back_is_trusted_again_once_it_has_caught_up() -> None:
    machine = Machine()
    mark = machine.clock()(NO_MARK)
    machine.wall_ms -= 500
    machine.advance(1_000)
    mark = machine.clock()(mark)
    assert mark.now == START_MS + 1_000
    machine.wall_ms += 500
    machine.advance(1_000)
    assert machine.clock()(mark).now == START_MS + 2_000 == machine.wall_ms


def test_sleep_counts() -> None:
    """The time a machine is suspended counts, even if its wall clock was set back meanwhile."""
    machine = Machine()
    mark = machine.clock()(NO_MARK)
    machine.wall_ms -= HOUR_MS
    machine.advance(8 * HOUR_MS)
    assert machine.clock()(mark).now == START_MS + 8 * HOUR_MS


def test_a_pause_between_reading_the_two_clocks_never_puts_time_ahead() -> None:
    machine = Machine()

    def count_after_a_pause() -> int:
        machine.advance(60_000)
        return machine.counted_ms

    mark = SystemClock(lambda: machine.wall_ms, count_after_a_pause, machine.boot_id)(NO_MARK)
    assert machine.clock()(mark).now == machine.wall_ms


def test_the_count_starts_again_after_a_reboot(path: Path) -> None:
    machine = Machine()
    machine.wall_ms += HOUR_MS
    with open_with_clock(path, machine.clock()) as store:
        store.claim_job("job", "dead", ttl=10)
    machine.reboot()
    machine.wall_ms -= HOUR_MS
    with open_with_clock(path, machine.clock()) as store:
        assert store.claim_job("job", "successor").status == "held"
        machine.advance(11_000)
        assert store.claim_job("job", "successor").status == "claimed"


def test_time_is_not_ahead_after_a_reboot_with_a_longer_uptime() -> None:
    """The counts before and after a reboot are unrelated."""
    machine = Machine()
    mark = machine.clock()(NO_MARK)
    machine.reboot()
    machine.advance(10_000)
    machine.counted_ms += HOUR_MS
    assert machine.clock()(mark).now == START_MS + 10_000
    machine.wall_ms -= HOUR_MS
    assert machine.clock()(mark).now == START_MS


@given(
    last=st.builds(Mark, st.integers(0, 2**42), st.sampled_from(["first", "second"]), st.integers(0, 2**42)),
    wall_ms=st.integers(0, 2**42),
    counted_ms=st.integers(0, 2**42),
)
def test_no_moment_is_before_the_last_whatever_the_clocks_say(last: Mark, wall_ms: int, counted_ms: int) -> None:
    """Even if the count starts again under the same boot id."""
    mark = SystemClock(lambda: wall_ms, lambda: counted_ms, "first")(last)
    assert mark.now >= max(last.now, wall_ms)
    assert (mark.boot_id, mark.counted_ms) == ("first", counted_ms)


def test_processes_from_before_and_after_a_correction_share_one_time(path: Path) -> None:
    """A process idle since before the clock was set back must not end a lease that another got afterwards."""
    machine = Machine()
    with open_with_clock(path, machine.clock()) as early:
        early.claim_job("something", ttl=10)
        machine.wall_ms -= HOUR_MS
        machine.advance(HOUR_MS // 2)
        with open_with_clock(path, machine.clock()) as late:
            assert late.claim_job("job", "late", ttl=120).status == "claimed"
            machine.advance(1_000)
            assert early.claim_job("job", "early").status == "held"
            machine.advance(119_000)
            assert early.claim_job("job", "early").status == "claimed"


def test_time_does_not_go_back_when_a_store_is_opened_with_an_earlier_clock(path: Path) -> None:
    with open_with_clock(path, ManualClock(START_MS + HOUR_MS)) as store:
        before = store.claim_job("before", ttl=60)
    with open_with_clock(path, ManualClock(START_MS)) as store:
        after = store.claim_job("after", ttl=60)
        again = store.claim_job("before")
        owner = store.get_job_owner("before")
        assert store.recover() == []
    assert before.claimed_at is not None
    assert before.expires_at is not None
    assert after.claimed_at is not None
    assert after.expires_at is not None
    assert after.claimed_at >= before.claimed_at
    assert after.expires_at >= before.expires_at
    assert again.status == "held"
    assert owner is not None
    assert owner.expires_at == before.expires_at
    assert_sound(path)


def test_a_lease_from_a_fast_clock_expires_after_its_ttl(path: Path) -> None:
    """The clock was an hour fast and was corrected, then everything restarted: no one waits for an hour."""
    machine = Machine()
    machine.wall_ms += HOUR_MS
    with open_with_clock(path, machine.clock()) as store:
        store.claim_job("job", "dead", ttl=10)
    machine.wall_ms -= HOUR_MS
    with open_with_clock(path, machine.clock()) as store:
        assert store.claim_job("job", "successor").status == "held"
        machine.advance(11_000)
        assert store.claim_job("job", "successor").status == "claimed"


def test_two_processes_with_different_clocks_share_one_time(path: Path) -> None:
    ahead, behind = ManualClock(START_MS + 5_000), ManualClock(START_MS)
    with open_with_clock(path, ahead) as one, open_with_clock(path, behind) as other:
        moments = [store.claim_job(f"job-{n}").claimed_at for n, store in enumerate([other, one, other, one, other])]
        assert None not in moments
        assert moments[0] != moments[1]
        assert moments[1:] == [moments[1]] * 4
    assert_sound(path)
