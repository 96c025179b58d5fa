"""Every fault of the file has one clear error, and never loses anything that was acknowledged."""

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

import octostore
from octostore.stores.sqlite.connection import APPLICATION_ID, migrations
from tests.support.embedded import backend_of, writer_of
from tests.support.files import fault, url
from tests.support.mounting import may_mount
from tests.support.processes import Worker
from tests.support.soundness import assert_sound

NOBODY = 65_534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with fifty claims, not open anywhere."""
    path = tmp_path / "octostore.db"
    with octostore.connect(url(path)) as store:
        for number in range(50):
            store.claim_job(f"job-{number}", metadata="x" * 500)
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


# Files that are not ours are left alone


@pytest.mark.parametrize("size", [1, 50, 100, 512, 4_096, 100_000])
def test_a_file_that_is_not_a_database(tmp_path: Path, size: int) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(random.Random(size).randbytes(size))
    before = files(tmp_path)
    error = fault(lambda: octostore.connect(url(path)))
    assert error.reason == "not_a_database"
    assert str(path) in str(error)
    assert files(tmp_path) == before


def test_somebody_elses_database(tmp_path: Path) -> None:
    path = tmp_path / "browser-history.db"
    stranger = apsw.Connection(str(path))
    stranger.execute("CREATE TABLE visits (page TEXT); INSERT INTO visits VALUES ('about:blank')")
    stranger.close()
    before = files(tmp_path)
    error = fault(lambda: octostore.connect(url(path)))
    assert error.reason == "not_a_database"
    assert str(path) in str(error)
    assert files(tmp_path) == before


def test_a_database_of_a_newer_version(path: Path) -> None:
    newer = len(migrations()) + 1
    upgrade = apsw.Connection(str(path))
    upgrade.execute(f"CREATE TABLE more (stuff TEXT); PRAGMA user_version = {newer}")
    upgrade.close()
    before = files(path.parent)
    error = fault(lambda: octostore.connect(url(path)))
    assert error.reason == "newer_schema"
    assert f"version {newer}" in str(error)
    assert files(path.parent) == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "octostore.db"
    path.touch()
    with octostore.connect(url(path)) as store:
        assert store.claim_job("job").status == "claimed"
    connection = apsw.Connection(str(path))
    assert connection.pragma("application_id") == APPLICATION_ID
    connection.close()


# What cannot be opened or written


@pytest.mark.parametrize("name", ["missing/octostore.db", "missing/deeper/octostore.db", "file/octostore.db"])
def test_a_path_where_no_file_can_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    error = fault(lambda: octostore.connect(url(tmp_path / name)))
    assert error.reason == "io"
    assert str(tmp_path / name) in str(error)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_folder(tmp_path: Path) -> None:
    error = fault(lambda: octostore.connect(url(tmp_path)))
    assert (error.reason, str(error)) == (
        "not_a_database",
        f"{tmp_path} is a folder; name a file in it, like {tmp_path}/octostore.db",
    )
    assert not list(tmp_path.iterdir())


@pytest.fixture
def open_folder(path: Path) -> Iterator[Path]:
    """A store that does not belong to root, outside pytest's folders, which other users may not enter."""
    folder = Path(tempfile.mkdtemp(prefix="octostore-"))
    shutil.copy(path, folder / "octostore.db")
    if os.geteuid() == 0:
        for owned in (folder, folder / "octostore.db"):
            os.chown(owned, NOBODY, NOBODY)
    try:
        yield folder
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


def attempts(path: Path) -> dict[str, str]:
    with Worker("unprivileged", path) as worker:
        lines = worker.rest()
        assert worker.exit_code() == 0
    return {what: reason for line in lines for what, reason in line.items() if what != "text"}


def test_a_read_only_file(open_folder: Path) -> None:
    path = open_folder / "octostore.db"
    path.chmod(0o400)
    before = path.read_bytes()
    assert attempts(path) == {"open": "works", "read": "works", "write": "read_only"}
    assert path.read_bytes() == before


def test_a_read_only_file_in_a_read_only_folder(open_folder: Path) -> None:
    path = open_folder / "octostore.db"
    path.chmod(0o400)
    open_folder.chmod(0o500)
    before = files(open_folder)
    assert attempts(path)["write"] == "read_only"
    assert files(open_folder) == before


def test_an_unreadable_file(open_folder: Path) -> None:
    path = open_folder / "octostore.db"
    path.chmod(0o000)
    assert attempts(path) == {"open": "io", "read": "io", "write": "io"}


@pytest.mark.parametrize("mode", [0o500, 0o000], ids=["read only", "closed"])
def test_a_folder_without_write_permission(open_folder: Path, mode: int) -> None:
    open_folder.chmod(mode)
    assert attempts(open_folder / "new.db") == {"open": "read_only", "read": "read_only", "write": "read_only"}
    open_folder.chmod(0o700)
    assert sorted(files(open_folder)) == ["octostore.db"]


# What is damaged


@pytest.mark.parametrize("damage", ["schema", "pages", "half", "first page only", "odd length"])
def test_a_damaged_file(path: Path, damage: str) -> None:
    content = path.read_bytes()
    noise = random.Random(damage).randbytes(len(content))
    damaged = {
        "schema": content[:100] + noise[100:4_096] + content[4_096:],
        "pages": content[:4_096] + noise[4_096:],
        "half": content[: len(content) // 2],
        "first page only": content[:4_096],
        "odd length": content[:5_000],
    }[damage]
    path.write_bytes(damaged)
    error = fault(lambda: octostore.connect(url(path)).claim_job("job-1"))
    assert error.reason == ("moved" if len(damaged) < len(content) else "corrupt")
    assert str(path) in str(error)


def test_a_write_ahead_log_that_lost_its_end_costs_only_the_end(tmp_path: Path) -> None:
    path = tmp_path / "octostore.db"
    with Worker("mayhem", path, "worker", 1_800_000_000_000) as worker:
        assert worker.hear() == "ready"
        worker.tell("go")
        acks = [worker.hear() for _ in range(40)]
        acks += worker.kill()
    wal = Path(f"{path}-wal")
    content = wal.read_bytes()
    whole = assert_sound(path)
    lengths = []
    for share in (0.9, 0.5, 0.1):
        shorter = tmp_path / f"{share}.db"
        shutil.copy(path, shorter)
        Path(f"{shorter}-wal").write_bytes(content[: int(len(content) * share)])
        with octostore.connect(url(shorter)) as store:
            store.get_job("lock-1")
        log = assert_sound(shorter)
        assert log == whole[: len(log)]
        lengths.append(len(log))
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < len(whole)


# Temporary faults


def make_impatient(store: octostore.OctoStore, timeout_ms: int) -> None:
    writer = writer_of(backend_of(store))
    writer.set_busy_timeout(timeout_ms)
    writer.setlk_timeout(timeout_ms, 0)


def test_another_process_writes_for_too_long(path: Path) -> None:
    with Worker("puppet", path) as stuck, octostore.connect(url(path)) as store:
        assert stuck.hear() == "ready"
        make_impatient(store, 50)
        stuck.ask("lock")
        error = fault(lambda: store.claim_job("late"))
        assert error.reason == "busy"
        assert str(path) in str(error)
        # Reads do not wait.
        assert store.get_job("job-1").status == "claimed"
        with octostore.connect(url(path)) as newcomer:
            assert newcomer.get_job("job-1").status == "claimed"
        stuck.ask("unlock")
        assert store.claim_job("late").status == "claimed"
    assert len(assert_sound(path)) == 51


def test_a_call_waits_while_another_process_writes(path: Path) -> None:
    with Worker("puppet", path) as stuck, octostore.connect(url(path)) as store, ThreadPoolExecutor(1) as pool:
        assert stuck.hear() == "ready"
        stuck.ask("lock")
        claim = pool.submit(store.claim_job, "patient")
        stuck.ask("unlock")
        assert claim.result(30).status == "claimed"


def test_a_file_that_cannot_grow(path: Path) -> None:
    with octostore.connect(url(path)) as store:
        writer = writer_of(backend_of(store))
        writer.pragma("max_page_count", writer.pragma("page_count"))
        acknowledged = 0
        faults: list[str] = []
        while len(faults) < 5:
            try:
                store.claim_job(f"more-{acknowledged}", metadata="x" * 1_000)
                acknowledged += 1
            except octostore.Unreachable as full:
                faults.append(full.reason)
        assert set(faults) == {"disk_full"}
        assert store.get_job("job-1").status == "claimed"
        writer.pragma("max_page_count", 1_000_000)
        assert store.claim_job("after").status == "claimed"
    assert len(assert_sound(path)) == 50 + acknowledged + 1


class NoTemporaryFiles(apsw.VFS):
    """A machine without a writable folder for temporary files, as in many containers."""

    def __init__(self) -> None:
        super().__init__("no-temporary-files", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None:
            raise apsw.CantOpenError("no folder for temporary files")
        return apsw.VFSFile("unix", name, flags)


def test_large_batches_need_no_temporary_files(tmp_path: Path) -> None:
    names = [f"job-{number * 7_919 % 2_000}" for number in range(2_000)]
    machine = NoTemporaryFiles()
    try:
        with octostore.connect(url(tmp_path / "octostore.db")) as store:
            for part in (names[:1_000], names[1_000:]):
                replies = store.batch([{"command": "claim_job", "job_id": name} for name in part])
                assert {reply.status for reply in replies} == {"claimed"}
            assert sum(len(page.jobs) for page in store.job_pages(status="claimed")) == len(names)
    finally:
        machine.unregister()


@pytest.mark.skipif(not may_mount(), reason="a small disk cannot be mounted here")
def test_a_full_disk(tmp_path: Path) -> None:
    with Worker("full_disk", tmp_path, under=("unshare", "--mount")) as worker:
        assert worker.hear() == "mounted"
        lines = worker.rest()
        assert worker.exit_code() == 0
    reasons = [(line["when"], line["reason"]) for line in lines if "reason" in line]
    assert reasons == [
        ("making a store", "disk_full"),
        *[("claiming", "disk_full")] * 5,
        ("reading", "works"),
        ("opening it again", "disk_full"),
        ("at last", "works"),
    ]
    (listing,) = [line["claimed"] for line in lines if "claimed" in line]
    assert sorted(listing) == sorted(f"before-{number}" for number in range(50))
    (log,) = [line for line in lines if "events" in line]
    assert log["events"] == [[seq, job_id] for seq, job_id in enumerate(log["acknowledged"], 1)]
