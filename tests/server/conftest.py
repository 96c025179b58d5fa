from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess


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
