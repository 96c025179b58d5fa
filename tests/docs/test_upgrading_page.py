"""The page on upgrading is followed on a store with an old schema, and on one with a newer schema than we know."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from octostore.stores.postgres import connection as postgres_connection
from octostore.stores.sqlite.connection import APPLICATION_ID, migrations
from tests.support.documents import Machine, blocks_of, check_printed, follow
from tests.support.processes import ROOT

PAGE = ROOT / "docs" / "how-to" / "upgrading.md"
CHANGELOG = ROOT / "CHANGELOG.md"
KNOWN = len(migrations())


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path / "machine") as machine:
        yield machine


def store_of(machine: Machine) -> Path:
    return machine.folder / ".local/share/octostore/octostore.db"


def version_of(path: Path) -> int:
    connection = apsw.Connection(str(path))
    version = int(connection.pragma("user_version"))
    connection.close()
    return version


def make_old(path: Path) -> None:
    """Make a store with the first schema, as the oldest version left it."""
    path.parent.mkdir(parents=True, mode=0o700)
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute(migrations()[0])
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()
    path.chmod(0o600)


def test_an_old_store_is_brought_up_to_date(machine: Machine) -> None:
    make_old(store_of(machine))
    first, printed = [block for block in blocks_of(PAGE) if block.kind in {"sh", "text"}][:2]
    follow([first, printed], machine)
    assert version_of(store_of(machine)) == KNOWN


def test_the_version_of_a_store_can_be_read(machine: Machine) -> None:
    machine.do("octostore enqueue review")
    reading = blocks_of(PAGE, "sh")[-1]
    assert machine.do(reading.text) == f"{KNOWN}\n"


def test_a_newer_store_is_refused_and_left_alone(machine: Machine) -> None:
    machine.do("octostore enqueue review")
    path = store_of(machine)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", KNOWN + 1)
    connection.close()
    printed = machine.do("octostore list", code=69)
    refusal = next(block for block in blocks_of(PAGE, "text") if "knows only" in block.text)
    check_printed(refusal.text, printed)
    assert version_of(path) == KNOWN + 1


def test_the_changelog_says_which_schemas_a_release_has() -> None:
    """A new migration cannot be forgotten there."""
    (section,) = [
        part for part in CHANGELOG.read_text(encoding="utf-8").split("\n### ") if part.startswith("Upgrading\n")
    ]
    assert f"SQLite schema {KNOWN}" in section
    assert f"PostgreSQL schema {len(postgres_connection.migrations('any'))}" in section
