"""A command line stands on the library: what takes long to import is imported only for those who use it."""

import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

import octostore

SLOW = {
    "aiohttp",
    "asyncio",
    "http.client",
    "importlib.resources",
    "inspect",
    "mcp",
    "octostore.client.spans",
    "opentelemetry",
    "pydantic",
    "socket",
    "ssl",
    "tempfile",
    "httptools",
    "uvloop",
}
NOT_TO_LOOK = {
    *SLOW,
    "argcomplete",
    "concurrent.futures",
    "email",
    "hashlib",
    "json",
    "logging",
    "octostore.client.connect",
    "octostore.client.embedded",
    "octostore.client.hold",
    "octostore.client.store",
    "octostore.client.tracing",
    "octostore.core.commands",
    "octostore.core.decide",
    "octostore.stores.batch",
    "octostore.stores.memory",
    "octostore.stores.store",
    "octostore.stores.writer",
    "psycopg",
    "random",
    "shutil",
    "typing_extensions",
}
"""What a command that only looks has no use for."""

USE_A_FILE = """
import sys
sys.modules["typing_extensions"] = None  # msgspec does without, but uses it, with inspect, where others brought it
import apsw, concurrent.futures, msgspec, pathlib
not_ours = set(sys.modules)

import octostore
with octostore.connect(sys.argv[1]) as store:
    with store.hold("held"):
        assert store.get_job_owner("held").owner
    store.claim_job("claimed")
    assert store.get_job("claimed").status == "claimed"
print(*sys.modules.keys() - not_ours)
"""

LOOK = """
import sys
from octostore.cli.main import main
assert main() == 0
print(*sys.modules)
"""

IMPORT_ALL = """
import sys
import octostore
print(*dir(octostore))
assert "octostore.client" not in sys.modules, "to look at the names is not to use them"
from octostore import *
assert connect_async is octostore.connect_async
assert AsyncOctoStore.__name__ == "AsyncOctoStore"
"""


def run_python(code: str, *arguments: str) -> set[str]:
    """The words that it prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_a_file_needs_no_network_and_no_asyncio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCTOSTORE_OWNER", raising=False)  # so that it has to find out who it is
    imported = run_python(USE_A_FILE, f"sqlite:///{tmp_path}/jobs.db")
    assert "octostore.stores.sqlite.backend" in imported
    assert imported & SLOW == set()


def test_all_names_are_there_before_they_are_used() -> None:
    assert run_python(IMPORT_ALL) >= set(octostore.__all__)


@pytest.mark.parametrize("command", ["owner held", "list", "events", "sessions", "dead", "health --fail-on never"])
def test_who_only_looks_imports_no_writer_and_no_rules(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTOSTORE_URL", f"sqlite:///{tmp_path}/jobs.db")
    monkeypatch.setenv("OCTOSTORE_TRACING", "1")  # for who writes
    with octostore.connect(tracing=False) as store:
        store.open_session("an agent")
        store.claim_job("held", metadata={"any": "thing"})
    imported = run_python(LOOK, *command.split())
    assert "octostore.stores.sqlite.backend" in imported
    assert imported & NOT_TO_LOOK == set()


@pytest.mark.parametrize("name", octostore.__all__)
def test_every_name_is_what_it_is_called(name: str) -> None:
    named = getattr(octostore, name)
    assert not isinstance(named, type | FunctionType) or named.__name__ == name


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'octostore' has no attribute 'connect_somehow'"):
        octostore.connect_somehow  # type: ignore[attr-defined]  # noqa: B018
