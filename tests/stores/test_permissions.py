"""Files that others can write to are not used: others could have changed them, or could do so later."""

import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import octostore
from octostore import InvalidInput
from octostore.stores.permissions import check_file
from octostore.stores.sqlite.copying import go_on_ahead, restore

NOBODY = 65_534
OTHERS_GROUP = next((user.pw_gid for user in pwd.getpwall() if user.pw_uid not in {0, os.geteuid()} and user.pw_gid), 1)
"""A group of a user who is neither root nor us."""
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed store, in a folder whose name needs quotes."""
    folder = tmp_path / "my jobs"
    folder.mkdir(mode=0o755)
    path = folder / "octostore.db"
    with octostore.connect(f"sqlite:///{path}") as store:
        store.claim_job("job")
    return path


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def refused(use: Callable[[], object]) -> str:
    with pytest.raises(InvalidInput) as caught:
        use()
    assert caught.value.field == "permissions"
    return str(caught.value)


def opened(path: Path) -> str:
    with octostore.connect(f"sqlite:///{path}") as store:
        return store.get_job("job").status


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o702])
@pytest.mark.parametrize("what", ["", "octostore.db", "octostore.db-wal", "octostore.db-journal"])
def test_what_others_can_write_to_is_refused_until_the_suggested_command_ran(path: Path, what: str, mode: int) -> None:
    shared = path.parent / what
    if not shared.exists():
        shared.touch()
    shared.chmod(mode)
    before = files(path)
    message = refused(lambda: opened(path))
    assert files(path) == before
    subprocess.run(["/bin/sh", "-c", message.partition("run: ")[2]], check=True)
    assert opened(path) == "claimed"


def test_one_error_lists_every_problem(path: Path) -> None:
    for shared in (path.parent, path):
        shared.chmod(0o777)
    subprocess.run(["/bin/sh", "-c", refused(lambda: opened(path)).partition("run: ")[2]], check=True)
    assert opened(path) == "claimed"


def test_no_store_is_made_where_others_could_replace_it(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    refused(lambda: octostore.connect(f"sqlite:///{folder}/octostore.db"))
    link = tmp_path / "link.db"
    link.symlink_to(folder / "octostore.db")
    refused(lambda: octostore.connect(f"sqlite:///{link}"))
    assert list(folder.iterdir()) == []


def test_a_link_that_others_could_replace_is_refused(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "link.db").symlink_to(path)
    refused(lambda: opened(folder / "link.db"))


def test_a_sticky_folder_is_accepted(path: Path) -> None:
    """Like /tmp: users cannot replace each other's files."""
    path.parent.chmod(0o1777)
    assert opened(path) == "claimed"


@only_root
@pytest.mark.parametrize("side", ["", "-wal", "-shm", "-journal"])
def test_files_that_others_put_in_a_sticky_folder_are_refused(path: Path, side: str) -> None:
    path.parent.chmod(0o1777)
    planted = path.with_name(path.name + side)
    planted.touch()
    os.chown(planted, NOBODY, NOBODY)
    before = files(path)
    assert f"run: chown 0 '{planted}'" in refused(lambda: opened(path))
    assert files(path) == before


@only_root
@pytest.mark.parametrize("what", ["", "octostore.db"])
def test_a_group_with_others_in_it(path: Path, what: str) -> None:
    shared = path.parent / what
    os.chown(shared, 0, OTHERS_GROUP)
    assert opened(path) == "claimed"
    shared.chmod(0o770)
    assert "chmod go-w" in refused(lambda: opened(path))


@only_root
@pytest.mark.parametrize("group", [0, 54_321], ids=["root's", "of nobody"])
def test_a_group_without_other_members_is_accepted(path: Path, group: int) -> None:
    """Many systems give each user their own group and make folders writable for it (umask 002)."""
    for shared in (path.parent, path):
        os.chown(shared, 0, group)
        shared.chmod(0o775)
    assert opened(path) == "claimed"


@only_root
def test_root_may_use_another_users_store_in_that_users_folder(path: Path) -> None:
    for owned in (path.parent, path):
        os.chown(owned, NOBODY, NOBODY)
    assert opened(path) == "claimed"


def test_backups_and_restores_refuse_shared_folders(path: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    backup, good = shared / "backup.db", tmp_path / "good.db"
    with octostore.connect(f"sqlite:///{path}") as store:
        store.backup(str(backup))
        store.backup(str(good))
        shared.chmod(0o777)
        refused(lambda: store.backup(str(shared / "another.db")))
    refused(lambda: restore(str(backup), str(tmp_path / "new.db"), replace=False, on_step=None))
    refused(lambda: restore(str(good), str(shared / "new.db"), replace=False, on_step=None))
    refused(lambda: go_on_ahead(str(backup)))
    assert [file.name for file in shared.iterdir()] == ["backup.db"]
    assert not (tmp_path / "new.db").exists()


def test_a_missing_file_is_not_a_permission_problem(tmp_path: Path) -> None:
    check_file(str(tmp_path / "missing" / "octostore.db"), "-wal")


# The user's own folder


def test_a_home_that_others_can_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    monkeypatch.setenv("OCTOSTORE_HOME", str(home))
    monkeypatch.delenv("OCTOSTORE_URL", raising=False)
    assert f"chmod go-w {home}" in refused(octostore.connect)
    assert list(home.iterdir()) == []
    home.chmod(0o755)
    with octostore.connect() as store:
        assert store.claim_job("job").status == "claimed"


def test_a_backup_does_not_go_to_a_device(path: Path) -> None:
    with octostore.connect(f"sqlite:///{path}") as store, pytest.raises(InvalidInput, match="not a regular file"):
        store.backup("/dev/null")
