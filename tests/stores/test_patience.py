"""How long commands wait for a failing store: each counts from the moment it was submitted."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

import octostore
from octostore.core.commands import AnyCommand, Probe
from octostore.stores import retrying, writer
from octostore.stores.base import TryAgain
from octostore.stores.batch import Committed, ReplyOrError
from octostore.stores.writer import Writer
from tests.support.processes import until

PATIENCE_SECONDS = 0.5


class FailingStore:
    """Runs nothing, and fails with `fault`."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.sizes: list[int] = []
        self.is_open = threading.Event()
        """Cleared to make attempts hang."""
        self.is_open.set()

    def run(self, commands: Sequence[AnyCommand]) -> Committed:
        self.sizes.append(len(commands))
        assert self.is_open.wait(30)
        if self.fault is not None:
            raise self.fault
        return Committed(["done"] * len(commands), [], [], [])


class Caller:
    def __init__(self) -> None:
        self.outcome: list[ReplyOrError] | Exception | None = None
        self.at = 0.0
        self._began_at = time.monotonic()

    def take(self, outcome: list[ReplyOrError] | Exception) -> None:
        self.outcome = outcome
        self.at = time.monotonic() - self._began_at


@pytest.fixture
def failing() -> FailingStore:
    return FailingStore()


@pytest.fixture
def call(failing: FailingStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Caller]:
    monkeypatch.setattr(retrying, "GIVE_UP_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(retrying, "PAUSE_MAX_SECONDS", PATIENCE_SECONDS / 10)
    one_writer = Writer(failing.run, lambda _: None)

    def call() -> Caller:
        caller = Caller()
        one_writer.submit([Probe()], caller.take)
        return caller

    return call


def away() -> TryAgain:
    return TryAgain(octostore.Unreachable("it is away", reason="network"))


def test_commands_succeed_if_the_store_is_back_in_time(failing: FailingStore, call: Callable[[], Caller]) -> None:
    failing.fault = away()
    callers = [call() for _ in range(3)]
    until(lambda: len(failing.sizes) > 2)
    failing.fault = None
    until(lambda: all(caller.outcome == ["done"] for caller in callers))


def test_every_waiting_caller_gets_the_error_when_its_time_is_up(
    failing: FailingStore, call: Callable[[], Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many batches they would fill, and however long each attempt takes."""
    monkeypatch.setattr(writer, "MAX_BATCH", 10)
    failing.fault = away()
    failing.is_open.clear()
    callers = [call() for _ in range(200)]
    time.sleep(PATIENCE_SECONDS)
    failing.is_open.set()
    until(lambda: all(isinstance(caller.outcome, octostore.Unreachable) for caller in callers))
    # The slow attempt and one more: a process that was paused during its first attempt has had no other.
    assert len(failing.sizes) == 2
    failing.fault = None
    later = call()
    until(lambda: later.outcome == ["done"])


def test_a_late_caller_waits_as_long_as_the_others(failing: FailingStore, call: Callable[[], Caller]) -> None:
    failing.fault = away()
    first = call()
    time.sleep(PATIENCE_SECONDS / 2)
    second = call()
    until(lambda: first.outcome is not None)
    assert second.outcome is None
    until(lambda: second.outcome is not None)
    for caller in (first, second):
        assert isinstance(caller.outcome, octostore.Unreachable)
        assert caller.at > PATIENCE_SECONDS


def test_a_slow_fault_reaches_every_caller_that_waited_as_long(
    failing: FailingStore, call: Callable[[], Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_BATCH", 10)
    failing.fault = octostore.Unreachable("it is busy", reason="busy")
    failing.is_open.clear()
    early = [call() for _ in range(50)]
    time.sleep(PATIENCE_SECONDS * 1.5)
    late = call()
    failing.fault = octostore.Unreachable("it is busy", reason="busy")
    failing.is_open.set()
    until(lambda: late.outcome is not None)
    assert len(failing.sizes) == 2
    for caller in early:
        assert isinstance(caller.outcome, octostore.Unreachable)
        assert caller.outcome.reason == "busy"
