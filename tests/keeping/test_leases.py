"""The files of kept leases: which owner they belong to, who can read them, and when they are deleted."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

import octostore
from octostore.core.limits import TTL_MAX_MS
from octostore.keeping import leases as module
from octostore.keeping.leases import KeptLease, KeptLeases
from octostore.keeping.processes import Process, find

HERE = find(os.getpid()) or Process(0)
GONE = Process(HERE.pid, "another start", "octostore")
HOSTILE = ["../../x", "a/b", ".", "", "é\u202e", "x" * 256]


def lease(job_id: str = "job", owner: str = "ann", fencing_token: int = 7, keeper: Process = HERE) -> KeptLease:
    return KeptLease(
        job_id=job_id,
        owner=owner,
        lease_id=f"secret-{job_id}-{owner}",
        fencing_token=fencing_token,
        ttl=120,
        claimed_at=datetime.now(UTC),
        keeper=keeper,
        watched=None,
        max_silence=600,
    )


@pytest.fixture
def kept(tmp_path: Path) -> KeptLeases:
    return KeptLeases(tmp_path / "kept")


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_an_owner_finds_its_own_leases(kept: KeptLeases) -> None:
    for one in (first := lease(), second := lease("other", fencing_token=9), lease(owner="bob")):
        kept.add(one)
    assert kept.of("ann") == [second, first]
    assert kept.find("ann", "job") == first
    assert kept.find("bob", "other") is None
    assert sorted(one.owner for one in kept.all()) == ["ann", "ann", "bob"]
    assert kept.of("eve") == []


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_escapes_the_folder(kept: KeptLeases, tmp_path: Path, name: str) -> None:
    kept.add(lease(name, name))
    assert [one.job_id for one in kept.of(name)] == [name]
    assert {path.parents[1] for path in files(tmp_path)} == {tmp_path / "kept"}


def test_only_the_user_can_read_lease_files(kept: KeptLeases, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        kept.add(lease())
    finally:
        os.umask(before)
    paths = list((tmp_path / "kept").rglob("*"))
    assert len(paths) == 3
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "kept", *paths) if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}


def test_a_lease_file_that_others_can_read_is_refused(kept: KeptLeases, tmp_path: Path) -> None:
    kept.add(lease())
    (path,) = (tmp_path / "kept").rglob("*.lease")
    path.chmod(0o640)
    with pytest.raises(octostore.InvalidInput, match="chmod") as refused:
        kept.of("ann")
    assert "secret" not in str(refused.value)


def test_a_folder_that_others_can_read_is_refused(kept: KeptLeases, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(mode=0o755)
    with pytest.raises(octostore.InvalidInput, match="chmod"):
        kept.prepare("ann")


def test_a_link_is_not_followed(kept: KeptLeases, tmp_path: Path) -> None:
    kept.add(lease())
    (path,) = (tmp_path / "kept").rglob("*.lease")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(octostore.InvalidInput, match="cannot be read"):
        kept.of("ann")


@pytest.mark.parametrize("name", ["kept", "kept/ann"])
def test_no_folder_is_a_link(kept: KeptLeases, tmp_path: Path, name: str) -> None:
    """Users who can create files here could otherwise redirect our leases."""
    kept.prepare("ann")
    folder = tmp_path / "kept" if name == "kept" else next((tmp_path / "kept").iterdir())
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(octostore.InvalidInput, match="is a symbolic link"):
        kept.add(lease())
    assert not list((tmp_path / "elsewhere").rglob("*.lease"))


def test_a_malformed_lease_file_is_named(kept: KeptLeases, tmp_path: Path) -> None:
    kept.add(lease())
    (path,) = (tmp_path / "kept").rglob("*.lease")
    path.write_text('{"lease_id": "secret"}')
    with pytest.raises(octostore.InvalidInput, match="delete it") as refused:
        kept.of("ann")
    assert str(path) in str(refused.value)
    assert "secret" not in str(refused.value)


def test_no_repr_shows_a_lease_id(kept: KeptLeases) -> None:
    kept.add(lease())
    assert "secret" not in repr(kept.of("ann"))


def test_a_forgotten_lease_leaves_no_files(kept: KeptLeases, tmp_path: Path) -> None:
    gone = lease(keeper=GONE)
    kept.add(gone)
    assert kept.confirm(gone)
    kept.forget(gone)
    assert not kept.confirm(gone)
    assert list(tmp_path.iterdir()) == []
    kept.forget(gone)  # safe to repeat


def test_forgetting_an_older_claim_keeps_the_newer_one_of_the_same_job(kept: KeptLeases) -> None:
    old, new = lease(keeper=GONE, fencing_token=7), lease(fencing_token=8)
    kept.add(old)
    kept.add(new)
    kept.forget(old)
    assert kept.find("ann", "job") == new


def test_a_keeper_is_not_mistaken_for_a_later_process_with_the_same_pid(kept: KeptLeases) -> None:
    kept.add(lease(keeper=GONE))
    kept.add(lease(owner="bob"))
    assert not kept.of("ann")[0].is_kept
    assert kept.of("bob")[0].is_kept


def make_old(kept: KeptLeases, *leases: KeptLease) -> None:
    long_ago = time.time() - module.LEFTOVERS_KEPT_SECONDS - 1
    for one in leases:
        os.utime(kept._path_of(one), (long_ago, long_ago))


@pytest.mark.parametrize("next_owner", ["ann", "bob"])
def test_the_next_claim_of_any_owner_deletes_leftovers(kept: KeptLeases, tmp_path: Path, next_owner: str) -> None:
    """An owner may never come back: many names contain the number of a process."""
    kept.add(old := lease("old", keeper=GONE))
    kept.add(recent := lease("recent", keeper=GONE))
    kept.add(living := lease("living"))
    kept.add(gone := lease("old", owner="gone", keeper=GONE))
    make_old(kept, old, living, gone)
    kept.prepare(next_owner)
    assert {one.job_id for one in kept.all()} == {recent.job_id, living.job_id}
    kept.tidy(next_owner)
    assert len(files(tmp_path)) == 3
    assert len(list((tmp_path / "kept").iterdir())) == 1, "the folder of an owner without leases is deleted, too"


@pytest.mark.parametrize("problem", ["malformed", "readable by others", "a link", "not a folder"])
def test_a_problem_with_the_files_of_another_owner_does_not_prevent_a_claim(
    kept: KeptLeases, tmp_path: Path, problem: str
) -> None:
    kept.add(other := lease(owner="bob", keeper=GONE))
    path = kept._path_of(other)
    if problem == "malformed":
        path.write_bytes(b"{}")
    elif problem == "readable by others":
        path.chmod(0o644)
    elif problem == "a link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / "kept" / "file").touch()
    kept.add(leftover := lease(owner="eve", keeper=GONE))
    make_old(kept, other, leftover)
    kept.prepare("ann")
    kept.add(mine := lease())
    assert kept.of("ann") == [mine]
    assert kept.of("eve") == []
    assert path.is_symlink() or problem == "not a folder" or path.exists(), "what cannot be understood stays"


@pytest.mark.parametrize("url", [None, "https://one.example"])
@pytest.mark.parametrize("home", ["link", "relative/deeper"])
def test_the_data_folder_may_be_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str | None, home: str
) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OCTOSTORE_HOME", home)
    monkeypatch.delenv("OCTOSTORE_URL", raising=False)
    kept = KeptLeases.of_store(url)
    kept.add(lease())
    monkeypatch.chdir("/")
    assert kept.find("ann", "job") is not None


def test_a_lease_whose_keeper_is_in_another_container_is_not_a_leftover(kept: KeptLeases, tmp_path: Path) -> None:
    """Containers that share a store do not see each other's processes."""
    kept.add(lease(keeper=GONE))
    (path,) = (tmp_path / "kept").rglob("*.lease")
    long_ago = time.time() - 2 * module.LEFTOVERS_KEPT_SECONDS
    os.utime(path, (long_ago, long_ago))
    assert kept.confirm(lease(keeper=GONE)), "the keeper does this regularly"
    for owner in ("ann", "bob"):
        kept.prepare(owner)
    assert kept.of("ann")


def test_no_claim_is_alive_when_its_lease_counts_as_a_leftover() -> None:
    """That long ago, it got its last heartbeat: keepers and commands that use a lease both touch its file."""
    assert module.LEFTOVERS_KEPT_SECONDS * 1_000 >= TTL_MAX_MS


def test_a_missing_parent_folder_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(octostore.Unreachable, match="cannot be kept") as failed:
        KeptLeases.of_store(f"sqlite:///{tmp_path}/missing/x.db").prepare("ann")
    assert failed.value.reason == "io"
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_activity_file_is_created_again(kept: KeptLeases) -> None:
    kept.add(lease())
    (kept._folder_of("ann") / "alive").unlink()
    assert kept.life_shown_at("ann") is None
    assert kept.show_life("ann")
    assert kept.life_shown_at("ann") is not None


def test_a_file_that_cannot_be_checked_does_not_count_as_deleted(tmp_path: Path) -> None:
    assert KeptLeases(tmp_path / ("x" * 300)).confirm(lease())
    assert not KeptLeases(tmp_path / "nothing").confirm(lease())


def test_activity_is_recorded_per_owner(kept: KeptLeases) -> None:
    assert not kept.show_life("ann")
    assert kept.life_shown_at("ann") is None
    kept.add(lease())
    os.utime(kept._folder_of("ann") / "alive", (0, 0))
    assert kept.life_shown_at("ann") == 0
    assert not kept.show_life("bob")
    assert kept.life_shown_at("ann") == 0
    assert kept.show_life("ann")
    assert (kept.life_shown_at("ann") or 0) > 0


def test_stores_never_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOSTORE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.db").symlink_to("a.db")
    urls = ["sqlite:///a.db", "sqlite:///b.db", "https://one.example", "https://two.example", "postgresql://u:p@h/d"]
    for url in urls:
        KeptLeases.of_store(url).add(lease(url))
    for url in urls:
        assert [one.job_id for one in KeptLeases.of_store(url).of("ann")] == [url]
    for same, url in (
        (f"sqlite:///{tmp_path}/a.db", "sqlite:///a.db"),
        ("sqlite:///link.db", "sqlite:///a.db"),
        ("https://one.example/", "https://one.example"),
        ("postgresql://u:changed@h/d", "postgresql://u:p@h/d"),
    ):
        assert [one.job_id for one in KeptLeases.of_store(same).of("ann")] == [url]
    assert {path.name for path in tmp_path.iterdir()} == {
        *("home", "link.db"),
        *(f"{name}.db-kept-{os.geteuid()}" for name in "ab"),
    }


def test_a_lease_file_contains_the_lease_id(kept: KeptLeases, tmp_path: Path) -> None:
    kept.add(lease())
    (path,) = (tmp_path / "kept").rglob("*.lease")
    assert msgspec.json.decode(path.read_bytes())["lease_id"] == "secret-job-ann"


def test_commands_of_other_owners_do_not_interfere(kept: KeptLeases, tmp_path: Path) -> None:
    """Each deletes the leftovers of the others, and nothing else."""

    def add_and_forget(owner: str) -> None:
        for token in range(100):
            kept.prepare(owner)
            kept.add(leftover := lease("old", owner, token, GONE))
            with suppress(FileNotFoundError):
                make_old(kept, leftover)
            kept.add(one := lease("new", owner, token, GONE))
            assert kept.find(owner, "new") == one
            assert kept.confirm(one)
            kept.forget(one)

    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(add_and_forget, ("ann", "bob", "eve", "joe")):
            pass
    kept.prepare("ann")
    kept.tidy("ann")
    assert files(tmp_path) == []


def test_concurrent_commands_of_one_owner_do_not_interfere(kept: KeptLeases, tmp_path: Path) -> None:

    def add_and_forget(number: int) -> None:
        for token in range(100):
            one = lease(f"job-{number}", fencing_token=token, keeper=GONE)
            kept.add(one)
            assert kept.confirm(one)
            kept.show_life("ann")
            kept.of("ann")
            kept.forget(one)

    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(add_and_forget, range(4)):
            pass
    assert files(tmp_path) == []
