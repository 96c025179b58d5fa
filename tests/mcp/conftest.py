"""Agents with their own MCP servers, on a file and on a server: both must behave the same."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest

import octostore
from tests.support.async_as_sync import Loop
from tests.support.mcp import Agent
from tests.support.server import ServerProcess
from tests.support.starting import PROGRAM, SCRIPT

NewAgent = Callable[..., Agent]


HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a store run in one process, so that its agents are started once."""
    for item in items:
        if item.path.parent == HERE and item.get_closest_marker("xdist_group") is None:
            callspec = getattr(item, "callspec", None)
            store = callspec and callspec.params.get("shared_world")
            item.add_marker(pytest.mark.xdist_group(f"mcp on a {store or 'server'}"))  # the SDK takes long to import


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OCTOSTORE_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.stop()


class World(NamedTuple):
    """A store and three agents that stay connected: two workers, and one with the tools of operators."""

    store: octostore.OctoStore
    ann: Agent
    bob: Agent
    eve: Agent
    env: dict[str, str]
    """The variables with which others find the store."""
    file: Path

    def new_name(self, what: str = "job") -> str:
        """A name that no other test uses."""
        return f"{what}-{uuid4().hex[:8]}"


@pytest.fixture(scope="session", params=["file", "server"])
def shared_world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, loop: Loop
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    with ExitStack() as at_end:
        env = {"OCTOSTORE_HOME": str(folder)}
        token: str | None = None
        if request.param == "server":
            server = at_end.enter_context(ServerProcess(folder))
            token = server.token
            env = {"OCTOSTORE_URL": server.url, "OCTOSTORE_TOKEN": token, "OCTOSTORE_HOME": str(folder / "nothing")}
        url = env.get("OCTOSTORE_URL", f"sqlite:///{folder}/octostore.db")
        store = at_end.enter_context(octostore.connect(url, token=token))
        started = [
            Agent(loop, folder, "ann", env=env, program=SCRIPT),
            Agent(loop, folder, "bob", env=env, program=PROGRAM, mode="legacy"),
            Agent(loop, folder, "eve", "--operator", env=env, program=PROGRAM),
        ]
        ann, bob, eve = [at_end.enter_context(agent) for agent in started]
        yield World(store, ann, bob, eve, env, folder / "octostore.db")


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    """The shared world. If a test fails halfway, the next one does not inherit its claims."""
    yield shared_world
    for agent in (shared_world.ann, shared_world.bob):
        for claim in agent.call("my_claims").document["claims"]:
            agent.call("release_job", job_id=claim["job_id"])


@pytest.fixture
def new_agent(world: World, loop: Loop, tmp_path: Path) -> Iterator[NewAgent]:
    """Start more agents on the world's store."""
    with ExitStack() as agents:

        def start(name: str, *arguments: str) -> Agent:
            return agents.enter_context(Agent(loop, tmp_path, name, *arguments, env=world.env))

        yield start
