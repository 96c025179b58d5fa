"""Shared by all tests."""

import gc
import itertools
import os
import re
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from octostore.supervise import prctl
from tests.support.promised import watch

# Thousands of tests and the modules they import live until the end: looking for garbage among them is wasted time.
gc.disable()

# No timed assertions: an example that is slow on a busy machine is not a counterexample.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    watch(config)
    os.environ.pop("PYTHONUNBUFFERED", None)  # users do not set it; and all processes can be forked from one
    if hasattr(config, "workerinput"):
        # Everything started here dies with its worker, so a killed run leaves nothing behind.
        prctl.die_with(os.getppid())


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.set_threshold(100_000)  # each test leaves little behind, too
    gc.enable()
    # If groups were ignored, the only symptom would be a slow run.
    if getattr(session.config.option, "loadgroup", False):
        grouped = (item for item in session.items if item.get_closest_marker("xdist_group"))
        lost = [item.nodeid for item in grouped if "@" not in item.nodeid]
        assert not lost, f"this pytest and this pytest-xdist disagree on groups: {lost[0]}"


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Restore the signals that a shell, nohup or perf ignored or blocked, and that children would inherit."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # Python ignores these itself
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like pytest's own, but without scanning the folders of all earlier tests for a free number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_numbers)}"
    folder.mkdir(mode=0o700)
    return folder
