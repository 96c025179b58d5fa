"""A store is a file, not a path: no other file is mistaken for it, and reading creates nothing."""

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import octostore
from octostore.client.read_only import open_read_only
from octostore.client.reader import Questions, Reader
from octostore.core.needs import Needs
from octostore.stores.sqlite.backend import SqliteBackend
from octostore.stores.sqlite.connection import make
from tests.support.files import claim_and_die, fault, url
from tests.support.founding import FIRST, NOT_FIRST, READS
from tests.support.processes import Worker
from tests.support.soundness import assert_sound


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "octostore.db"


def listing(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


# A store that does not exist


@pytest.mark.parametrize("name", READS)
def test_reading_creates_no_store(path: Path, name: str) -> None:
    with octostore.connect(url(path)) as store:
        missing = fault(lambda: READS[name](store))
    assert missing.reason == "no_store"
    assert str(missing) == f"there is no store at {path}; the first claim or enqueue creates it"
    assert listing(path) == []


def test_every_read_is_tested() -> None:
    calls = {name for kind in (Questions, Reader) for name in vars(kind) if not name.startswith("_")} - {
        "backup",
        "close",
        "job_pages",
    }
    assert set(READS) - {"follow"} == calls


def test_a_read_only_connection_creates_no_store(path: Path) -> None:
    with open_read_only(url(path)) as reader:
        assert fault(reader.figures).reason == "no_store"
    assert listing(path) == []


@pytest.mark.parametrize("name", NOT_FIRST)
def test_a_command_on_something_existing_creates_no_store(path: Path, name: str) -> None:
    with octostore.connect(url(path)) as store:
        assert fault(lambda: NOT_FIRST[name](store)).reason == "no_store"
    assert listing(path) == []


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("is_empty_file", [False, True])
def test_a_command_that_can_come_first_creates_the_store(path: Path, name: str, is_empty_file: bool) -> None:
    if is_empty_file:
        path.touch()
    with octostore.connect(url(path)) as store:
        FIRST[name](store)
        assert store.figures().store_id
    assert listing(path) == ["octostore.db"]


def test_a_reader_finds_the_store_that_another_process_created(path: Path) -> None:
    with octostore.connect(url(path)) as reader, octostore.connect(url(path)) as writer:
        assert fault(reader.figures).reason == "no_store"
        writer.claim_job("job")
        assert reader.get_job("job").status == "claimed"


# The id of a store


def test_a_store_keeps_its_id_and_no_two_have_the_same(tmp_path: Path) -> None:
    ids = []
    for name in ("one", "one", "other"):
        with octostore.connect(url(tmp_path / f"{name}.db")) as store:
            store.claim_job("job")
            ids.append((store.figures().store_id, store.health().store_id))
    assert ids[0] == ids[1] != ids[2]
    assert all(len(one) == 32 and one == other for one, other in ids)


# Files that were moved


def make_store(path: Path) -> str:
    with octostore.connect(url(path)) as store:
        store.claim_job("old")
        return store.figures().store_id


def test_a_log_without_its_database_is_not_a_missing_store(path: Path, tmp_path: Path) -> None:
    claim_and_die(path, "1", "2", "3")
    path.rename(tmp_path / "elsewhere.db")
    before = listing(path)
    for call in (lambda: octostore.connect(url(path)), lambda: open_read_only(url(path))):
        error = fault(call)
        assert error.reason == "moved"
        assert "-wal" in str(error)
        assert "restart" not in str(error), "nothing has it open"
    assert listing(path) == before


@pytest.mark.parametrize("claims", [1, 1_000])
def test_a_database_without_its_log_is_not_the_store(path: Path, tmp_path: Path, claims: int) -> None:
    claim_and_die(path, *map(str, range(claims)))
    alone = tmp_path / "alone" / "octostore.db"
    alone.parent.mkdir()
    shutil.copy(path, alone)
    error = fault(lambda: octostore.connect(url(alone)))
    assert error.reason == "moved"
    assert "-wal" in str(error)
    assert listing(alone) == ["octostore.db"]
    # With its log it is complete.
    shutil.copy(f"{path}-wal", f"{alone}-wal")
    with octostore.connect(url(alone)) as store:
        assert len(store.list_claimed_jobs()) == claims


def test_a_closed_store_can_be_moved_without_a_log(path: Path, tmp_path: Path) -> None:
    make_store(path)
    assert listing(path) == ["octostore.db"]
    path.rename(tmp_path / "elsewhere.db")
    with octostore.connect(url(tmp_path / "elsewhere.db")) as store:
        assert store.get_job("old").status == "claimed"


def test_reading_a_killed_store_leaves_its_log_for_writers(path: Path) -> None:
    claim_and_die(path, "1", "2", "3")
    for _ in range(2):
        with open_read_only(url(path)) as reader:
            assert len(reader.list_claimed_jobs()) == 3
    with octostore.connect(url(path)) as store:
        assert store.claim_job("next").status == "claimed"
    assert listing(path) == ["octostore.db"]
    assert len(assert_sound(path)) == 4


def test_a_second_creator_of_a_store_leaves_the_log_of_the_first(path: Path) -> None:
    claim_and_die(path, "1")
    make(str(path))  # like a process that found no store a moment ago
    with octostore.connect(url(path)) as store:
        assert len(store.list_claimed_jobs()) == 1


def test_a_process_that_closes_a_shared_store_hides_no_later_writes(path: Path, tmp_path: Path) -> None:
    """The other process's later writes are only in the log again, and the database says so."""
    with Worker("puppet", path) as worker:
        assert worker.hear() == "ready"
        worker.ask("claim_job", job_id="job-1")
        make_store(path)
        worker.ask("claim_job", job_id="job-2")
        worker.kill()
    alone = tmp_path / "alone.db"
    shutil.copy(path, alone)
    assert fault(lambda: octostore.connect(url(alone))).reason == "moved"
    assert len(assert_sound(path)) == 3


def moved_away(path: Path, new: Path) -> None:
    path.rename(new)


def deleted(path: Path, _new: Path) -> None:
    path.unlink()


def replaced(path: Path, new: Path) -> None:
    make_store(new)
    new.rename(path)


def copied_over(path: Path, new: Path) -> None:
    shutil.copy(path, new)
    new.rename(path)


@pytest.mark.parametrize("happens", [moved_away, deleted, replaced, copied_over])
def test_a_running_process_notices_that_its_file_is_gone(
    path: Path, tmp_path: Path, happens: Callable[[Path, Path], None]
) -> None:
    with octostore.connect(url(path)) as store:
        claim = store.claim_job("job")
        happens(path, tmp_path / "new.db")
        assert fault(lambda: store.claim_job("more")).reason == "moved"
        assert fault(lambda: store.heartbeat_job("job", claim.lease_id or "")).reason == "moved"
        assert fault(lambda: store.get_job("job")).reason == "moved"


def test_nothing_is_acknowledged_that_was_committed_into_a_file_that_is_gone(path: Path, tmp_path: Path) -> None:
    """The file was moved between the first check and the commit."""
    make_store(path)
    backend = SqliteBackend(path)
    with pytest.raises(octostore.Unreachable) as raised, backend.writing(Needs()):
        path.rename(tmp_path / "elsewhere.db")
    assert raised.value.reason == "moved"
    backend.close()


def test_another_store_copied_into_the_file_is_not_mistaken_for_it(path: Path, tmp_path: Path) -> None:
    """The operating system sees the same file; only the store's id differs."""
    make_store(path)
    other = make_store(tmp_path / "other.db")
    with octostore.connect(url(path)) as store:
        assert store.get_job("old").status == "claimed"
        shutil.copyfile(tmp_path / "other.db", path)
        error = fault(lambda: store.claim_job("more"))
        assert error.reason == "moved"
        assert f"its id is {other}" in str(error)
    assert len(assert_sound(path)) == 1


def test_a_file_that_is_put_back_is_used_again(path: Path, tmp_path: Path) -> None:
    with octostore.connect(url(path)) as store:
        store.claim_job("job")
        path.rename(tmp_path / "elsewhere.db")
        error = fault(lambda: store.claim_job("more"))
        assert error.reason == "moved"
        assert "Move the database and its -wal back in place; if you put a copy there instead" in str(error)
        shutil.copy(tmp_path / "elsewhere.db", path)
        assert fault(lambda: store.claim_job("more")).reason == "moved", "only a restart makes it use a copy"
        (tmp_path / "elsewhere.db").rename(path)
        assert store.claim_job("more").status == "claimed"
    assert len(assert_sound(path)) == 2


def test_a_store_whose_file_was_replaced_does_not_harm_the_new_one(path: Path) -> None:
    """The last close of a database makes SQLite delete its log, by name."""
    store = octostore.connect(url(path))
    store.claim_job("old")
    for file in path.parent.iterdir():
        file.unlink()
    claim_and_die(path, "1", "2", "3")
    store.close()
    assert len(assert_sound(path)) == 3


def test_an_empty_database_is_not_turned_into_a_store(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (x); DROP TABLE t")
    connection.close()
    before = path.read_bytes()
    assert fault(lambda: octostore.connect(url(path))).reason == "not_a_database"
    assert path.read_bytes() == before
