"""The client gives up before the store does."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.client.authority import Authority
from octostore.client.heartbeater import Heartbeater
from octostore.client.lateness import Lateness
from octostore.core.errors import LeaseLost, Unreachable
from octostore.core.moments import to_datetime
from octostore.core.replies import HeartbeatReply

seconds = st.floats(0, 100_000, allow_nan=False)


@given(asked_at=seconds, latency=seconds, ttl_ms=st.integers(1_000, 86_400_000), later=seconds)
def test_authority_ends_before_the_lease_whatever_the_latency(
    asked_at: float, latency: float, ttl_ms: int, later: float
) -> None:
    now = asked_at
    authority = Authority(lambda: now, Lateness())
    # The store grants the lease at some time after it was asked, and so ends it no earlier than this:
    lease_ends_at = asked_at + ttl_ms / 1_000
    now = asked_at + latency
    authority.renew(asked_at, ttl_ms)
    now += later
    assert authority.remaining() >= 0
    if now >= lease_ends_at:
        assert authority.remaining() == 0
    if authority.remaining() > 0:
        assert now < lease_ends_at


def test_a_late_answer_does_not_shorten_what_is_known() -> None:
    authority = Authority(lambda: 0, Lateness())
    authority.renew(0, 60_000)
    longer = authority.remaining()
    authority.renew(-30, 60_000)
    assert authority.remaining() == longer


def test_authority_that_was_given_up_does_not_come_back() -> None:
    authority = Authority(lambda: 0, Lateness())
    authority.renew(0, 60_000)
    authority.end()
    authority.renew(0, 60_000)
    assert authority.remaining() == 0


def answered(remaining_ms: int) -> "Future[HeartbeatReply]":
    future: Future[HeartbeatReply] = Future()
    future.set_result(
        HeartbeatReply(job_id="job", expires_at=to_datetime(0), remaining_ms=remaining_ms, renew_after_ms=0)
    )
    return future


def failed(error: Exception) -> "Future[HeartbeatReply]":
    future: Future[HeartbeatReply] = Future()
    future.set_exception(error)
    return future


class Run:
    """A heart with a short interval on the real clock, and a script of what its beats get.

    Its lease `lasts` so long that it is not lost on a busy machine, unless it is meant to be.
    """

    def __init__(self, script: list["Future[HeartbeatReply]"], *, lasts: float = 60, takes_long: bool = False) -> None:
        self.script = script
        self.beats = 0
        self.beaten = threading.Semaphore(0)
        self.lost = threading.Event()
        self.why: object = None
        self.may_go_on = threading.Event()
        if not takes_long:
            self.may_go_on.set()
        self.authority = Authority()
        self.authority.renew(self.authority.now(), round(lasts * 1_000))
        self.heart = Heartbeater(self.beat, self.authority, 0.1, self.lose)
        self.heart.start()

    def lose(self, why: object) -> None:
        self.why = why
        self.lost.set()
        self.may_go_on.wait(30)

    def beat(self) -> "Future[HeartbeatReply]":
        answer = self.script[min(self.beats, len(self.script) - 1)]
        self.beats += 1
        self.beaten.release()
        return answer


def test_it_beats_until_it_is_stopped() -> None:
    run = Run([answered(600_000)])
    for _ in range(3):
        assert run.beaten.acquire(timeout=30)
    run.heart.stop()
    assert not run.lost.is_set()
    assert run.authority.remaining() > 60


@pytest.mark.parametrize(("ttl", "interval"), [(3, 1), (30, 10), (300, 10), (86_400, 10)])
def test_however_long_the_ttl_is_a_loss_is_learnt_of_within_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, ttl: float, interval: float
) -> None:
    due: list[float] = []
    pulse = SimpleNamespace(schedule=lambda _heart, due_at: due.append(due_at))
    monkeypatch.setattr("octostore.client.heartbeater._heartbeat_thread", pulse)
    now = 0.0
    authority = Authority(lambda: now, Lateness())
    authority.renew(now, round(ttl * 1_000))
    heart = Heartbeater(lambda: answered(round(ttl * 1_000)), authority, ttl, lambda _why: None)
    heart.start()
    assert due == [interval]
    now = interval
    heart.step()  # asks
    heart.step()  # is answered
    assert due[-1] == 2 * interval


def test_a_lost_lease_is_told_at_once() -> None:
    run = Run([failed(LeaseLost("job", "taken"))])
    assert run.lost.wait(timeout=30)
    assert run.authority.remaining() > 0
    assert run.beats == 1
    assert isinstance(run.why, LeaseLost)


def test_faults_are_tried_again_and_a_good_beat_makes_up_for_them() -> None:
    fault = failed(Unreachable("gone", reason="io"))
    run = Run([fault, fault, answered(600_000)])
    for _ in range(4):
        assert run.beaten.acquire(timeout=30)
    assert run.authority.remaining() > 60, "the third beat got through"
    assert not run.lost.is_set()
    run.heart.stop()


def test_faults_that_do_not_end_are_not_waited_out() -> None:
    run = Run([failed(Unreachable("gone", reason="io"))], lasts=2)
    assert run.lost.wait(timeout=30)
    assert run.beats > 1


def test_a_beat_that_is_never_answered_does_not_keep_the_lease() -> None:
    run = Run([Future()], lasts=0.5)
    assert run.lost.wait(timeout=30)
    assert run.authority.remaining() == 0


def test_whoever_takes_long_to_hear_of_a_loss_keeps_nobody_else_s_heart_from_beating() -> None:
    lost = Run([failed(LeaseLost("job", "taken"))], takes_long=True)
    assert lost.lost.wait(timeout=30)
    other = Run([answered(10_000)])
    for _ in range(3):
        assert other.beaten.acquire(timeout=30)
    other.heart.stop()
    lost.may_go_on.set()
