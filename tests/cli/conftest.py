"""The command line on a file and on a server: both must behave the same."""

import os
import pty
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import octostore
from octostore.cli import progress_bar
from octostore.cli.main import main
from octostore.client.embedded import EmbeddedPort
from octostore.stores.opening import default_path, make_data_folder
from octostore.stores.sqlite import SqliteBackend
from octostore.stores.store import LocalStore
from tests.support.cli import Done, LiveCli, run_cli
from tests.support.files import make_empty
from tests.support.served import ServedStore
from tests.support.server import ServerProcess
from tests.support.world import ManualClock

QUIET = {"expired", "session_expired"}
"""Events that a server writes by itself, whatever a test does."""


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Isolate each test from the person who runs it: the home that it returns holds all files."""
    for name in [name for name in os.environ if name.startswith("OCTOSTORE_")]:
        monkeypatch.delenv(name)
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OCTOSTORE_HOME", str(home / "octostore"))
    return home


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests, each of which uses its own names."""
    with ServerProcess(tmp_path_factory.mktemp("server")) as process:
        yield process
        process.check_has_not_failed()
        with octostore.connect(process.url, token=process.token) as store:
            assert store.verify().problems == []


@contextmanager
def progress_on_terminal(term: str = "xterm") -> Iterator[list[str]]:
    """Stderr is a terminal, and progress is shown at once. After the block, the list has what the terminal got."""
    seen, terminal = pty.openpty()
    shown: list[str] = []
    with os.fdopen(terminal, "w", encoding="utf-8") as stderr, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        patch.setenv("TERM", term)
        patch.setattr(progress_bar, "QUIET_SECONDS", 0)
        yield shown
    with os.fdopen(seen, "rb", buffering=0) as screen, suppress(OSError):  # at the end, as nobody writes any more
        while part := screen.read(10_000):
            shown.append(part.decode())


class Cli:
    """What tests do with a store: run commands as processes, call them in this one, and use the library."""

    def __init__(self, capsys: pytest.CaptureFixture[str], store: octostore.OctoStore, home: Path) -> None:
        self._capsys = capsys
        self.store = store
        self.home = home
        self.job = self.new_name("job")

    def new_name(self, what: str) -> str:
        """A name that no other test uses (a server is shared), too short to look like a truncated generated name."""
        return f"{what}-{uuid4().hex[:7]}"

    def run(self, *arguments: str, stdin: str | None = None, **env: str) -> Done:
        return run_cli(*arguments, stdin=stdin, **env)

    def start(self, *arguments: str, **env: str) -> LiveCli:
        return LiveCli(*arguments, **env)

    def call(self, *arguments: str) -> Done:
        """The same without a process, for tests with many command lines."""
        self._capsys.readouterr()
        code = main(arguments)
        return Done(code, *self._capsys.readouterr())

    def json(self, *arguments: str, code: int = 0) -> Any:
        done = self.call(*arguments, "--json")
        assert done.code == code, done
        return done.json

    def lease(self, job: str | None = None, **options: Any) -> str:
        """Claim a job, and return its lease id."""
        reply = self.store.claim_job(job or self.job, **{"owner": "ann", **options})
        assert reply.lease_id is not None
        return reply.lease_id

    def log(self) -> list[tuple[int, str]]:
        return [(event.seq, event.type) for event in self.store.events() if event.type not in QUIET]


@pytest.fixture
def empty_store() -> str:
    """The path of this user's store, which is still empty."""
    make_data_folder()
    path = default_path()
    make_empty(Path(path))
    return path


@pytest.fixture(params=["file", "server"])
def cli(
    request: pytest.FixtureRequest, clean: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cli]:
    if request.param == "server":
        server: ServerProcess = request.getfixturevalue("server")
        monkeypatch.setenv("OCTOSTORE_URL", server.url)
        monkeypatch.setenv("OCTOSTORE_TOKEN", server.token)
    else:
        request.getfixturevalue("empty_store")
    with octostore.connect() as store:
        yield Cli(capsys, store, clean)


@contextmanager
def store_of_an_hour_ago(
    kind: str,
    clean: Path,
    monkeypatch: pytest.MonkeyPatch,
    fill: Callable[[octostore.OctoStore], object],
    *,
    spoil: Callable[[sqlite3.Connection], object] | None = None,
) -> Iterator[None]:
    """A store of its own that nobody has opened for an hour: on a file, or on a server.

    A real server would have logged every expiry within a second. `spoil` changes the file directly.
    """
    path = clean / "octostore" / "octostore.db"
    path.parent.mkdir(mode=0o700)
    path.touch(0o600)
    path.write_bytes(_filled(fill, spoil))
    with ExitStack() as at_end:
        if kind == "server":
            served = ServedStore(LocalStore(lambda: SqliteBackend(path)), clean)
            at_end.callback(served.stop)
            monkeypatch.setenv("OCTOSTORE_URL", served.place.origin)
            monkeypatch.setenv("OCTOSTORE_TOKEN", served.token)
        yield


@cache
def _filled(
    fill: Callable[[octostore.OctoStore], object], spoil: Callable[[sqlite3.Connection], object] | None
) -> bytes:
    """The bytes of the file, made once for all tests that use it."""
    clock = ManualClock(int(time.time() * 1_000) - 3_600_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "octostore.db")
        with octostore.OctoStore(EmbeddedPort(LocalStore(lambda: SqliteBackend(path), clock=clock))) as store:
            fill(store)
        if spoil is not None:
            with closing(sqlite3.connect(path)) as database:
                spoil(database)
                database.commit()
        assert list(path.parent.iterdir()) == [path], "everything is in one file"
        return path.read_bytes()
