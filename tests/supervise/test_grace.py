"""However long a command may take to stop, it is dead before its lease ends. Time is in the test's hands."""

import signal
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octostore.supervise import messages as m
from octostore.supervise import watch as watching
from octostore.supervise.command import Command, Terms
from octostore.supervise.dispositions import Dispositions
from octostore.supervise.watch import Watch

NOBODY: Any = None


@given(ttl=st.floats(1, 86_400), grace=st.floats(0, 100_000), ends_at=st.floats(0, 1_000_000))
def test_the_grace_of_a_lease_that_runs_out_is_its_last_tenth_at_most(ttl: float, grace: float, ends_at: float) -> None:
    claim: Any = SimpleNamespace(ttl=ttl)
    stop_at, kill_at = Command(NOBODY, claim, Terms(stop_grace=grace), print)._lease(ends_at)
    assert stop_at <= kill_at < ends_at
    assert stop_at >= ends_at - ttl * 0.1001
    assert kill_at - stop_at <= grace + 1e-6


class Watched:
    """A guardian with a command of which nothing is real, and a lease to be stopped at 9 and killed at 10 seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, line: socket.socket) -> None:
        self.now = 0.0
        self.killed = 0
        self.signals: list[int] = []
        monkeypatch.setattr(watching, "boottime", lambda: self.now)
        monkeypatch.setattr(watching, "descendants", lambda _pid: [])
        monkeypatch.setattr(watching, "kill_below", self.kill)
        monkeypatch.setattr(watching, "signal_all", lambda _family, number: self.signals.append(number))
        self.watch = Watch(line, ["true"], signal.SIGTERM, Dispositions())
        self.watch._turn, self.watch._has_family = 1, True
        self.watch._stop_at, self.watch._lease_ends_at = 9.0, 10.0

    def kill(self, _pid: int) -> None:
        self.killed += 1

    def obey(self, order: m.Order) -> None:
        self.watch._obey(order)

    def is_killed_at(self, moment: float) -> bool:
        self.now = moment
        self.watch._keep_deadlines()
        return self.killed > 0


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Watched(monkeypatch, ours)


def test_a_grace_that_is_longer_than_the_lease_ends_with_it(watched: Watched) -> None:
    watched.obey(m.Stop(600))
    assert watched.signals == [signal.SIGTERM, signal.SIGCONT]
    assert watched.watch._next_deadline() == 10
    assert not watched.is_killed_at(9.9)
    assert watched.is_killed_at(10)


def test_a_grace_that_is_shorter_than_the_lease_ends_by_itself(watched: Watched) -> None:
    watched.obey(m.Stop(5))
    assert watched.watch._next_deadline() == 5
    assert not watched.is_killed_at(4.9)
    assert watched.is_killed_at(5)


def test_a_lease_that_is_renewed_meanwhile_leaves_the_grace_as_it_is(watched: Watched) -> None:
    watched.obey(m.Stop(20))
    watched.obey(m.Renew(1, 99, 100))
    assert not watched.is_killed_at(19.9)
    assert watched.is_killed_at(20)


def test_a_second_word_does_not_make_the_grace_longer(watched: Watched) -> None:
    watched.obey(m.Stop(5))
    watched.obey(m.Stop(600))
    assert watched.is_killed_at(5)


def test_a_lease_that_nobody_renews_is_told_first_and_then_kills(watched: Watched) -> None:
    assert not watched.is_killed_at(8.9)
    assert watched.signals == []
    assert not watched.is_killed_at(9)
    assert watched.signals == [signal.SIGTERM, signal.SIGCONT]
    assert watched.is_killed_at(10)


def test_a_renewal_of_an_earlier_turn_or_out_of_order_means_nothing(watched: Watched) -> None:
    watched.obey(m.Renew(0, 99, 100))
    watched.obey(m.Renew(1, 4, 5))
    assert watched.watch._next_deadline() == 9
    watched.is_killed_at(9)
    assert watched.is_killed_at(10)
