from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of a module in one process, so that its server starts once."""
    for item in items:
        if "server" in getattr(item, "fixturenames", ()) and item.path.parent == HERE:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server per module; each test uses its own names."""
    with ServerProcess(tmp_path_factory.mktemp("home")) as process:
        yield process
        process.check_has_not_failed()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """For tests that stop it or count its contents."""
    with ServerProcess(tmp_path) as process:
        yield process
