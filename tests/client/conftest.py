import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import octostore
from octostore.client.http import async_port, connections, port
from tests.support.async_as_sync import Loop, StoreAsSync
from tests.support.proxy import Proxy
from tests.support.server import ServerProcess

Connect: TypeAlias = Callable[..., Any]
Shorten: TypeAlias = Callable[..., None]
_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server per module; each test uses its own job names."""
    with ServerProcess(tmp_path_factory.mktemp("home")) as process:
        yield process
        process.check_has_not_failed()


@pytest.fixture
def proxy(server: ServerProcess) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def job_id() -> str:
    """A name that no other test uses."""
    return f"job-{next(_numbers)}"


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No `OCTOSTORE_` variables, and an empty home."""
    for variable in [name for name in os.environ if name.startswith("OCTOSTORE_")]:
        monkeypatch.delenv(variable)
    home = tmp_path / "home"
    monkeypatch.setenv("OCTOSTORE_HOME", str(home))
    return home


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest, nothing_set: Path) -> Iterator[Connect]:
    """`octostore.connect`, then `octostore.connect_async` behind the same interface."""
    del nothing_set
    with ExitStack() as at_end:
        loop = Loop() if request.param == "async" else None
        if loop is not None:
            at_end.callback(loop.stop)

        def open_one(*args: Any, **options: Any) -> Any:
            store: Any
            if loop is None:
                store = octostore.connect(*args, **options)
            else:
                store = StoreAsSync(loop, loop.run(octostore.connect_async(*args, **options)))
            at_end.callback(store.close)
            return store

        yield open_one


@pytest.fixture
def shorten(monkeypatch: pytest.MonkeyPatch) -> Shorten:
    """`shorten(GIVE_UP_SECONDS=0.5)` sets it for the sync and the async client."""

    def set_all(**seconds: float) -> None:
        for name, value in seconds.items():
            modules = [module for module in (async_port, connections, port) if hasattr(module, name)]
            assert modules, f"no client has {name}"
            for module in modules:
                monkeypatch.setattr(module, name, value)

    return set_all
