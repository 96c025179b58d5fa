"""How long commands are patient with a place that fails: each of them from the moment at which it was handed in."""

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


class Place:
    """Runs nothing, and fails as it is told to."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.sizes: list[int] = []
        self.is_open = threading.Event()
        """Whether attempts come to an end."""
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
def place() -> Place:
    return Place()


@pytest.fixture
def call(place: Place, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Caller]:
    monkeypatch.setattr(retrying, "GIVE_UP_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(retrying, "PAUSE_MAX_SECONDS", PATIENCE_SECONDS / 10)
    one_writer = Writer(place.run, lambda _: None)

    def call() -> Caller:
        caller = Caller()
        one_writer.submit([Probe()], caller.take)
        return caller

    return call


def away() -> TryAgain:
    return TryAgain(octostore.Unreachable("it is away", reason="network"))


def test_a_place_that_is_back_in_time_is_not_missed(place: Place, call: Callable[[], Caller]) -> None:
    place.fault = away()
    callers = [call() for _ in range(3)]
    until(lambda: len(place.sizes) > 2)
    place.fault = None
    until(lambda: all(caller.outcome == ["done"] for caller in callers))


def test_all_who_wait_are_told_when_their_time_is_up(
    place: Place, call: Callable[[], Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many batches they would be, and however long each attempt takes."""
    monkeypatch.setattr(writer, "MAX_BATCH", 10)
    place.fault = away()
    place.is_open.clear()
    callers = [call() for _ in range(200)]
    time.sleep(PATIENCE_SECONDS)
    place.is_open.set()
    until(lambda: all(isinstance(caller.outcome, octostore.Unreachable) for caller in callers))
    # The one that took so long, and one more: whoever was stopped in the middle of it has had no other.
    assert len(place.sizes) == 2
    place.fault = None
    later = call()
    until(lambda: later.outcome == ["done"])


def test_whoever_comes_late_has_as_long_as_the_others(place: Place, call: Callable[[], Caller]) -> None:
    place.fault = away()
    first = call()
    time.sleep(PATIENCE_SECONDS / 2)
    second = call()
    until(lambda: first.outcome is not None)
    assert second.outcome is None
    until(lambda: second.outcome is not None)
    for caller in (first, second):
        assert isinstance(caller.outcome, octostore.Unreachable)
        assert caller.at > PATIENCE_SECONDS


def test_a_fault_that_takes_long_is_told_to_those_who_have_waited_for_as_long(
    place: Place, call: Callable[[], Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_BATCH", 10)
    place.fault = octostore.Unreachable("it is busy", reason="busy")
    place.is_open.clear()
    early = [call() for _ in range(50)]
    time.sleep(PATIENCE_SECONDS * 1.5)
    late = call()
    place.fault = octostore.Unreachable("it is busy", reason="busy")
    place.is_open.set()
    until(lambda: late.outcome is not None)
    assert len(place.sizes) == 2
    for caller in early:
        assert isinstance(caller.outcome, octostore.Unreachable)
        assert caller.outcome.reason == "busy"
