"""However long a command takes to stop, it is dead before its lease expires. The test controls the time."""

import signal
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.client.lateness import SAFETY, smallest_ttl
from octostore.supervise import guardian_process
from octostore.supervise import messages as m
from octostore.supervise.dispositions import Dispositions
from octostore.supervise.guardian_process import GuardianProcess
from octostore.supervise.lease import GRACE_SHARE, KILL_SHARE, Lease


@given(ttl=st.floats(1, 86_400), grace=st.floats(0, 100_000), ends_at=st.floats(0, 1_000_000))
def test_the_grace_of_an_expiring_lease_is_at_most_its_last_tenth(ttl: float, grace: float, ends_at: float) -> None:
    lease = Lease(ends_at, ttl, grace, delay=0)
    assert lease.stop_at() <= lease.kill_at() < ends_at
    assert lease.stop_at() >= ends_at - ttl * 0.1001
    assert lease.kill_at() - lease.stop_at() <= grace + 1e-6


@given(
    ttl=st.floats(1, 86_400),
    grace=st.floats(0, 100_000),
    ends_at=st.floats(0, 1_000_000),
    delay=st.floats(0, 1),
    own=st.floats(0, 1),
)
def test_a_busy_machine_kills_earlier_but_never_before_the_heartbeat_is_late(
    ttl: float, grace: float, ends_at: float, delay: float, own: float
) -> None:
    lease = Lease(ends_at, ttl, grace, delay)
    third = ends_at - ttl / 3 - 1e-6
    assert third <= lease.stop_at(own) <= lease.kill_at(own) <= lease.kill_at() < ends_at
    if ttl >= smallest_ttl(delay, own):
        assert lease.kill_at(own) <= ends_at - SAFETY * (delay + own) + 1e-6, "a margin above the measured delay"


def until(kill_at: float) -> Lease:
    """A lease whose command is killed at `kill_at` and signalled one second earlier."""
    ttl = 1 / GRACE_SHARE
    return Lease(kill_at + ttl * KILL_SHARE, ttl, grace=100, delay=0)


class Watched:
    """A guardian with a simulated command, whose lease stops it at 9 seconds and kills it at 10."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, line: socket.socket) -> None:
        self.now = 0.0
        self.killed = 0
        self.signals: list[int] = []
        monkeypatch.setattr(guardian_process, "boottime", lambda: self.now)
        monkeypatch.setattr(guardian_process, "descendants", lambda _pid: [])
        monkeypatch.setattr(guardian_process, "kill_descendants", self.kill)
        monkeypatch.setattr(guardian_process, "signal_all", lambda _family, number: self.signals.append(number))
        self.watch = GuardianProcess(line, ["true"], signal.SIGTERM, Dispositions())
        self.watch._run_number, self.watch._has_children = 1, True
        self.watch._lease = until(10)

    def kill(self, _pid: int) -> None:
        self.killed += 1

    def obey(self, order: m.Order) -> None:
        self.watch._handle_order(order)

    def is_killed_at(self, moment: float) -> bool:
        self.now = moment
        self.watch._enforce_deadlines()
        return self.killed > 0


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Watched(monkeypatch, ours)


def test_a_grace_that_is_longer_than_the_lease_ends_with_the_lease(watched: Watched) -> None:
    watched.obey(m.Stop(600))
    assert watched.signals == [signal.SIGTERM, signal.SIGCONT]
    assert watched.watch._next_deadline() == 10
    assert not watched.is_killed_at(9.9)
    assert watched.is_killed_at(10)


def test_a_grace_that_is_shorter_than_the_lease_ends_first(watched: Watched) -> None:
    watched.obey(m.Stop(5))
    assert watched.watch._next_deadline() == 5
    assert not watched.is_killed_at(4.9)
    assert watched.is_killed_at(5)


def test_renewing_the_lease_does_not_change_the_grace(watched: Watched) -> None:
    watched.obey(m.Stop(20))
    watched.obey(m.Renew(1, until(100)))
    assert not watched.is_killed_at(19.9)
    assert watched.is_killed_at(20)


def test_a_second_stop_does_not_extend_the_grace(watched: Watched) -> None:
    watched.obey(m.Stop(5))
    watched.obey(m.Stop(600))
    assert watched.is_killed_at(5)


def test_a_lease_that_is_not_renewed_stops_and_then_kills_the_command(watched: Watched) -> None:
    assert not watched.is_killed_at(8.9)
    assert watched.signals == []
    assert not watched.is_killed_at(9)
    assert watched.signals == [signal.SIGTERM, signal.SIGCONT]
    assert watched.is_killed_at(10)


def test_a_renewal_for_an_earlier_run_or_out_of_order_is_ignored(watched: Watched) -> None:
    watched.obey(m.Renew(0, until(100)))
    watched.obey(m.Renew(1, until(5)))
    assert watched.watch._next_deadline() == 9
    watched.is_killed_at(9)
    assert watched.is_killed_at(10)
