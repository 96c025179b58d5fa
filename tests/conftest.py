"""Shared by all tests."""

import gc
import itertools
import os
import re
import signal
from collections import Counter
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

EARLY = 0.9
"""The part of a run within which all groups have started."""
_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    watch(config)
    os.environ.pop("PYTHONUNBUFFERED", None)  # users do not set it; and all processes can be forked from one
    if hasattr(config, "workerinput"):
        # Everything started here dies with its worker, so a killed run leaves nothing behind.
        prctl.die_with(os.getppid())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests that share something into one process, and keep all processes busy to the end.

    All files progress evenly, because some tests compute and others mostly wait. Groups start early, the largest first.
    """
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares_fixtures(item):
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    groups = {item: mark.args[0] for item in items if (mark := item.get_closest_marker("xdist_group"))}
    starts, before = {}, 0
    for group, size in Counter(groups.values()).most_common():
        starts[group] = EARLY * before / len(groups)
        before += size
    files = Counter(item.path for item in items if item not in groups)
    seen: Counter[Path] = Counter()

    def place(item: pytest.Item) -> tuple[float, str]:
        if item in groups:
            return starts[groups[item]], groups[item]
        seen[item.path] += 1
        return (seen[item.path] - 1) / files[item.path], ""

    items.sort(key=place)


def _shares_fixtures(item: pytest.Item) -> bool:
    """With other tests of its module."""
    definitions = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    return any(definition.scope == "module" for each in definitions.values() for definition in each)


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
