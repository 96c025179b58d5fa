"""Commands start fast: modules that are slow to import are imported only when used."""

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
NOT_FOR_READING = {
    *SLOW,
    "argcomplete",
    "concurrent.futures",
    "email",
    "gettext",
    "hashlib",
    "json",
    "locale",
    "logging",
    "msgspec.inspect",
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
    "platform",
    "psycopg",
    "random",
    "shutil",
    "textwrap",
    "typing_extensions",
}
"""Modules that a command that only reads does not need."""

USE_A_FILE = """
import sys
sys.modules["typing_extensions"] = None  # optional for msgspec, which would also import inspect
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

READ = """
import sys
from octostore.cli.main import main
assert main() == 0
print(*sys.modules)
"""

USE_WHAT_WAS_LEFT_OUT = """
import sys
from octostore.cli import startup
startup.prepare()
import argparse, uuid
import msgspec
assert not {"gettext", "msgspec.inspect", "platform", "textwrap", "typing_extensions"} & sys.modules.keys()
assert argparse.ngettext("%s is wrong", "%s are wrong", 2) == "%s are wrong"
assert msgspec.inspect.type_info(int) == msgspec.inspect.IntType()
assert msgspec.json.schema(str) == {"type": "string"}
import gettext, platform, textwrap, typing_extensions
assert uuid.platform.machine() == platform.machine()
assert gettext.__file__ and platform.system() and textwrap.dedent(" a") == "a"
assert sys.modules["msgspec.inspect"] is msgspec.inspect
"""

IMPORT_ALL = """
import sys
import octostore
print(*dir(octostore))
assert "octostore.client" not in sys.modules, "listing the names imports nothing"
from octostore import *
assert connect_async is octostore.connect_async
assert AsyncOctoStore.__name__ == "AsyncOctoStore"
"""


def run_python(code: str, *arguments: str) -> set[str]:
    """The words that `code` prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_a_file_needs_no_network_and_no_asyncio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OCTOSTORE_OWNER", raising=False)  # so that it has to find its own name
    imported = run_python(USE_A_FILE, f"sqlite:///{tmp_path}/jobs.db")
    assert "octostore.stores.sqlite.backend" in imported
    assert imported & SLOW == set()


def test_all_names_are_listed_before_they_are_imported() -> None:
    assert run_python(IMPORT_ALL) >= set(octostore.__all__)


@pytest.mark.parametrize("command", ["owner held", "list", "events", "sessions", "dead", "health --fail-on never"])
def test_commands_that_only_read_import_no_writer_and_no_rules(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTOSTORE_URL", f"sqlite:///{tmp_path}/jobs.db")
    monkeypatch.setenv("OCTOSTORE_TRACING", "1")  # has no effect on reads
    with octostore.connect(tracing=False) as store:
        store.open_session("an agent")
        store.claim_job("held", metadata={"any": "thing"})
    imported = run_python(READ, *command.split())
    assert "octostore.stores.sqlite.backend" in imported
    assert imported & NOT_FOR_READING == set()


def test_a_module_that_startup_left_out_works_once_it_is_used() -> None:
    run_python(USE_WHAT_WAS_LEFT_OUT)


@pytest.mark.parametrize("name", octostore.__all__)
def test_every_exported_name_is_the_objects_own_name(name: str) -> None:
    named = getattr(octostore, name)
    assert not isinstance(named, type | FunctionType) or named.__name__ == name


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'octostore' has no attribute 'connect_somehow'"):
        octostore.connect_somehow  # type: ignore[attr-defined]  # noqa: B018
