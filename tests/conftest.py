"""For all tests."""

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

# Thousands of tests and all that they import stay to the end: nobody need look for garbage among them, see below.
gc.disable()

# No timed assertions: an example that takes long on a busy machine is no counterexample.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    watch(config)
    os.environ.pop("PYTHONUNBUFFERED", None)  # as users have it, and so that all processes can be forked from one
    if hasattr(config, "workerinput"):
        # As everything that is started here dies with us, nothing is left of a run that is killed.
        prctl.die_with(os.getppid())


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()
    # Groups that are not obeyed would only be seen by how long everything takes.
    if getattr(session.config.option, "loadgroup", False):
        grouped = (item for item in session.items if item.get_closest_marker("xdist_group"))
        lost = [item.nodeid for item in grouped if "@" not in item.nodeid]
        assert not lost, f"this pytest and this pytest-xdist do not agree on groups: {lost[0]}"


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Undo what a shell or nohup does to programs in the background, and what these pass on to their children."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like pytest's own, which goes through the folders of all earlier tests, several times, to find a free number."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_numbers)}"
    folder.mkdir(mode=0o700)
    return folder
