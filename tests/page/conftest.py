"""The live page, in a real browser. One Chromium and one server for the whole folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.chromium import PROGRAM, Chromium
from tests.support.server import ServerProcess

HERE = Path(__file__).parent
_open: list[Chromium] = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.xdist_group("page"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Closed with the last test here, and not at the end of the session: see `Chromium`."""
    try:
        yield
    finally:
        if nextitem is None or nextitem.path.parent != HERE:
            while _open:
                _open.pop().close()


@pytest.fixture(scope="session")
def chromium() -> Chromium:
    if PROGRAM is None:
        pytest.skip("no Chromium here: apt install chromium")
    _open.append(Chromium())
    return _open[0]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One for all tests, which use names of their own."""
    with ServerProcess(tmp_path_factory.mktemp("home")) as process:
        yield process
        process.check_has_not_failed()
