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
    # The store grants the lease after it was asked, so the lease cannot expire before this:
    lease_ends_at = asked_at + ttl_ms / 1_000
    now = asked_at + latency
    authority.renew(asked_at, ttl_ms)
    now += later
    assert authority.remaining() >= 0
    if now >= lease_ends_at:
        assert authority.remaining() == 0
    if authority.remaining() > 0:
        assert now < lease_ends_at


def test_a_late_reply_does_not_shorten_the_authority() -> None:
    authority = Authority(lambda: 0, Lateness())
    authority.renew(0, 60_000)
    longer = authority.remaining()
    authority.renew(-30, 60_000)
    assert authority.remaining() == longer


def test_ended_authority_cannot_be_renewed() -> None:
    authority = Authority(lambda: 0, Lateness())
    authority.renew(0, 60_000)
    authority.end()
    authority.renew(0, 60_000)
    assert authority.remaining() == 0


def reply_future(remaining_ms: int) -> "Future[HeartbeatReply]":
    future: Future[HeartbeatReply] = Future()
    future.set_result(
        HeartbeatReply(job_id="job", expires_at=to_datetime(0), remaining_ms=remaining_ms, renew_after_ms=0)
    )
    return future


def error_future(error: Exception) -> "Future[HeartbeatReply]":
    future: Future[HeartbeatReply] = Future()
    future.set_exception(error)
    return future


class Run:
    """A heartbeater with a short interval on the real clock, and a script of the replies to its heartbeats.

    By default its lease `lasts` long enough not to be lost on a busy machine.
    """

    def __init__(self, script: list["Future[HeartbeatReply]"], *, lasts: float = 60, takes_long: bool = False) -> None:
        self.script = script
        self.heartbeats = 0
        self.sent = threading.Semaphore(0)
        self.lost = threading.Event()
        self.why: object = None
        self.may_go_on = threading.Event()
        if not takes_long:
            self.may_go_on.set()
        self.authority = Authority()
        self.authority.renew(self.authority.now(), round(lasts * 1_000))
        self.heartbeater = Heartbeater(self.heartbeat, self.authority, 0.1, self.lose)
        self.heartbeater.start()

    def lose(self, why: object) -> None:
        self.why = why
        self.lost.set()
        self.may_go_on.wait(30)

    def heartbeat(self) -> "Future[HeartbeatReply]":
        reply = self.script[min(self.heartbeats, len(self.script) - 1)]
        self.heartbeats += 1
        self.sent.release()
        return reply


def test_it_heartbeats_until_it_is_stopped() -> None:
    run = Run([reply_future(600_000)])
    for _ in range(3):
        assert run.sent.acquire(timeout=30)
    run.heartbeater.stop()
    assert not run.lost.is_set()
    assert run.authority.remaining() > 60


@pytest.mark.parametrize(("ttl", "interval"), [(3, 1), (30, 10), (300, 10), (86_400, 10)])
def test_a_lost_lease_is_noticed_within_ten_seconds_whatever_the_ttl(
    monkeypatch: pytest.MonkeyPatch, ttl: float, interval: float
) -> None:
    due: list[float] = []
    pulse = SimpleNamespace(schedule=lambda _heartbeater, due_at: due.append(due_at))
    monkeypatch.setattr("octostore.client.heartbeater._heartbeat_thread", pulse)
    now = 0.0
    authority = Authority(lambda: now, Lateness())
    authority.renew(now, round(ttl * 1_000))
    heartbeater = Heartbeater(lambda: reply_future(round(ttl * 1_000)), authority, ttl, lambda _why: None)
    heartbeater.start()
    assert due == [interval]
    now = interval
    heartbeater.step()  # sends a heartbeat
    heartbeater.step()  # reads the reply
    assert due[-1] == 2 * interval


def test_a_lost_lease_is_reported_at_once() -> None:
    run = Run([error_future(LeaseLost("job", "taken"))])
    assert run.lost.wait(timeout=30)
    assert run.authority.remaining() > 0
    assert run.heartbeats == 1
    assert isinstance(run.why, LeaseLost)


def test_faults_are_retried_and_the_next_good_heartbeat_renews_the_lease() -> None:
    fault = error_future(Unreachable("gone", reason="io"))
    run = Run([fault, fault, reply_future(600_000)])
    for _ in range(4):
        assert run.sent.acquire(timeout=30)
    assert run.authority.remaining() > 60, "the third heartbeat got through"
    assert not run.lost.is_set()
    run.heartbeater.stop()


def test_a_lasting_fault_loses_the_lease() -> None:
    run = Run([error_future(Unreachable("gone", reason="io"))], lasts=2)
    assert run.lost.wait(timeout=30)
    assert run.heartbeats > 1


def test_a_heartbeat_without_a_reply_does_not_keep_the_lease() -> None:
    run = Run([Future()], lasts=0.5)
    assert run.lost.wait(timeout=30)
    assert run.authority.remaining() == 0


def test_a_slow_on_lost_callback_does_not_delay_other_heartbeats() -> None:
    lost = Run([error_future(LeaseLost("job", "taken"))], takes_long=True)
    assert lost.lost.wait(timeout=30)
    other = Run([reply_future(10_000)])
    for _ in range(3):
        assert other.sent.acquire(timeout=30)
    other.heartbeater.stop()
    lost.may_go_on.set()
