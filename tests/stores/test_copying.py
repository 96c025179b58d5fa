"""Backups: consistent while others write, and never over an existing file; and stores restored from them."""

import os
import shutil
import stat
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

import octostore
from octostore.stores.sqlite.connection import APPLICATION_ID, BUSY_TIMEOUT_MS, migrations
from octostore.stores.sqlite.copying import AHEAD, back_up, go_on_ahead, restore
from octostore.wire.tokens import new_token
from tests.support.files import claim_and_die, url
from tests.support.processes import Worker
from tests.support.soundness import assert_sound


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one claim, not open anywhere."""
    path = tmp_path / "octostore.db"
    with octostore.connect(url(path)) as store:
        store.claim_job("old", "ann", ttl=3_600)
    return path


@pytest.fixture
def copy(tmp_path: Path, path: Path) -> Path:
    copy = tmp_path / "backup.db"
    with octostore.connect(url(path)) as store:
        assert store.backup(copy) == 1
    return copy


# Making a backup


def test_a_backup_is_one_consistent_state_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "octostore.db"
    with Worker("mayhem", path, "worker", 1_800_000_000_000) as worker:
        assert worker.hear() == "ready"
        worker.tell("go")
        for number in range(5):
            worker.hear()
            copy = tmp_path / f"{number}.db"
            seq = back_up(str(path), str(copy), None)
            assert assert_sound(copy)[-1].seq == seq
            assert not Path(f"{copy}-wal").exists()
        worker.kill()
    whole = assert_sound(path)
    for number in range(5):
        log = assert_sound(tmp_path / f"{number}.db")
        assert log == whole[: len(log)]


def test_a_backup_is_private_to_its_user_and_reports_its_progress(path: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    with octostore.connect(url(path)) as store:
        store.backup(tmp_path / "backup.db", lambda done, total: steps.append((done, total)))
    assert stat.S_IMODE((tmp_path / "backup.db").stat().st_mode) == 0o600
    assert steps[-1][0] == steps[-1][1] > 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["backup.db", "octostore.db"]


def test_a_backup_is_synced_before_it_appears_under_its_name(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    sync, link = os.fsync, os.link

    def record_sync(descriptor: int) -> None:
        sync(descriptor)
        done.append(("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))

    def record_link(part: str, copy: str) -> None:
        link(part, copy)
        done.append(("link", part))

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "link", record_link)
    with octostore.connect(url(path)) as store:
        store.backup(tmp_path / "backup.db")
    (first, part), second, third = done
    assert (first, second, third) == ("sync", ("link", part), ("sync", str(tmp_path)))


def test_a_backup_overwrites_nothing(path: Path, tmp_path: Path) -> None:
    existing = tmp_path / "letter.txt"
    existing.write_text("dear ann")
    with octostore.connect(url(path)) as store, pytest.raises(octostore.InvalidInput, match="already exists"):
        store.backup(existing)
    assert existing.read_text() == "dear ann"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["letter.txt", "octostore.db"]


@pytest.mark.parametrize("store_url", ["memory:", "http://127.0.0.1:1"])
def test_only_a_file_is_backed_up(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOSTORE_TOKEN", new_token())
    with octostore.connect(store_url) as store, pytest.raises(octostore.InvalidInput, match="url"):
        store.backup(tmp_path / "backup.db")


def test_a_missing_store_is_not_backed_up(tmp_path: Path) -> None:
    with octostore.connect(url(tmp_path / "typo.db")) as store, pytest.raises(octostore.Unreachable) as raised:
        store.backup(tmp_path / "backup.db")
    assert raised.value.reason == "no_store"
    assert list(tmp_path.iterdir()) == []


# Restoring a backup


def test_a_restored_store_issues_only_tokens_above_those_issued_since_the_backup(copy: Path, path: Path) -> None:
    with octostore.connect(url(path)) as store:
        since = store.claim_job("since").fencing_token or 0
        store_id = store.figures().store_id
    elsewhere = path.with_name("restored.db")
    seq, aside = restore(str(copy), str(elsewhere), replace=False, on_step=None)
    assert seq > AHEAD
    assert aside is None
    with octostore.connect(url(elsewhere)) as store:
        assert store.figures().store_id == store_id
        assert store.get_job("old").owner == "ann"
        assert (store.claim_job("since").fencing_token or 0) > seq > since
        events = list(store.events())
        assert [event.type for event in events] == ["claimed", "restored", "claimed"]
        for first, event in enumerate(events):  # a moment is found across the numbers that were skipped
            assert list(store.events(since=event.at)) == events[first:]
        assert store.list_claims().more is False
    assert len(assert_sound(elsewhere)) == 3


def test_the_time_of_a_restored_store_is_now(copy: Path, path: Path) -> None:
    hour_ms = 3_600_000
    with closing(apsw.Connection(str(copy))) as aged:
        aged.execute("UPDATE counters SET now = now - ?, counted_ms = counted_ms - ?", (hour_ms, hour_ms))
    restore(str(copy), str(path), replace=True, on_step=None)
    with octostore.connect(url(path)) as store:
        ahead = store.probe().at - datetime.now(UTC)
    assert abs(ahead) < timedelta(minutes=10)


def test_a_store_is_replaced_only_on_request_and_is_kept_aside(copy: Path, path: Path) -> None:
    with pytest.raises(octostore.InvalidInput, match="--replace"):
        restore(str(copy), str(path), replace=False, on_step=None)
    with octostore.connect(url(path)) as store:
        store.claim_job("since")
    _, aside = restore(str(copy), str(path), replace=True, on_step=None)
    assert aside is not None
    assert len(assert_sound(Path(aside))) == 2
    assert [entry.type for entry in assert_sound(path)] == ["claimed", "restored"]


def test_a_backup_that_is_restored_repeatedly_issues_no_fencing_token_twice(copy: Path, path: Path) -> None:
    tokens = []
    for _ in range(3):
        restore(str(copy), str(path), replace=True, on_step=None)
        with octostore.connect(url(path)) as store:
            tokens.append(store.claim_job("since").fencing_token or 0)
    assert tokens == sorted(set(tokens))


def test_every_store_that_was_put_aside_is_kept(copy: Path, path: Path) -> None:
    asides = [restore(str(copy), str(path), replace=True, on_step=None)[1] for _ in range(3)]
    assert len({aside for aside in asides if aside and Path(aside).exists()}) == 3


def test_a_killed_store_that_was_put_aside_can_be_used(copy: Path, path: Path) -> None:
    claim_and_die(path, "since")
    _, aside = restore(str(copy), str(path), replace=True, on_step=None)
    with octostore.connect(f"sqlite:///{aside}") as store:
        assert store.get_job("since").status == "claimed"


def test_restoring_to_a_link_replaces_the_store_it_points_to(copy: Path, path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    restore(str(copy), str(link), replace=True, on_step=None)
    assert link.is_symlink()
    assert [entry.type for entry in assert_sound(path)] == ["claimed", "restored"]


def test_a_restore_replaces_an_empty_file(copy: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    assert restore(str(copy), str(empty), replace=False, on_step=None)[1] is None
    assert len(assert_sound(empty)) == 2


def test_a_copy_without_its_log_is_not_a_backup(path: Path, tmp_path: Path) -> None:
    claim_and_die(path, "since")
    cut = tmp_path / "cut.db"
    shutil.copy(path, cut)
    with pytest.raises(octostore.Unreachable) as raised:
        restore(str(cut), str(tmp_path / "new.db"), replace=False, on_step=None)
    assert raised.value.reason == "moved"
    assert str(cut) in str(raised.value)
    assert not (tmp_path / "new.db").exists()


def test_nobody_waits_for_a_backup(path: Path, tmp_path: Path) -> None:
    """After one process closes the store, the next writer marks it as open again, and a reader holds that mark off."""
    with octostore.connect(url(path)) as store:

        def others_come_and_go(_done: int, _all: int) -> None:
            with octostore.connect(url(path)) as other:
                other.claim_job("other")
            began_at = time.monotonic()
            store.claim_job("more")
            took.append(time.monotonic() - began_at)

        took: list[float] = []
        store.backup(tmp_path / "backup.db", others_come_and_go)
        assert max(took) < BUSY_TIMEOUT_MS / 1_000, "it did not wait for the busy timeout"


def test_an_open_mark_that_a_reader_held_off_is_written_later(path: Path, tmp_path: Path) -> None:
    reader = apsw.Connection(str(path))
    with Worker("puppet", path) as worker:
        assert worker.hear() == "ready"
        reader.execute("BEGIN; SELECT * FROM counters").fetchall()
        worker.ask("claim_job", job_id="first")
        reader.execute("ROLLBACK")
        reader.close()
        worker.ask("claim_job", job_id="second")
        worker.kill()
    shutil.copy(path, tmp_path / "alone.db")
    with pytest.raises(octostore.Unreachable, match="-wal"):
        octostore.connect(url(tmp_path / "alone.db"))


def test_a_store_in_use_is_not_replaced(copy: Path, path: Path) -> None:
    with Worker("puppet", path) as worker:
        assert worker.hear() == "ready"
        worker.ask("claim_job", job_id="since")
        with pytest.raises(octostore.Unreachable) as raised:
            restore(str(copy), str(path), replace=True, on_step=None)
        assert raised.value.reason == "in_use"
        worker.ask("claim_job", job_id="more")
    assert len(assert_sound(path)) == 3


@pytest.mark.parametrize("damage", ["noise", "cut", "only its log"])
def test_a_damaged_store_is_replaced(copy: Path, path: Path, damage: str) -> None:
    if damage == "noise":
        path.write_bytes(bytes(range(256)) * 64)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5_000])
    else:
        path.rename(f"{path}-wal")
    restore(str(copy), str(path), replace=True, on_step=None)
    assert [entry.type for entry in assert_sound(path)] == ["claimed", "restored"]


@pytest.mark.parametrize("content", [None, b"", b"no backup", bytes(4_096)])
def test_a_file_that_is_not_a_backup_is_not_restored(path: Path, tmp_path: Path, content: bytes | None) -> None:
    copy = tmp_path / "letter.txt"
    if content is not None:
        copy.write_bytes(content)
    before = path.read_bytes()
    problem = "is not a backup" if content else "does not exist" if content is None else "is empty"
    with pytest.raises(octostore.InvalidInput, match=f"^file {copy} {problem}"):
        restore(str(copy), str(path), replace=True, on_step=None)
    assert path.read_bytes() == before


def test_a_backup_of_an_older_version_is_brought_up_to_date(tmp_path: Path) -> None:
    copy = tmp_path / "old.db"
    connection = apsw.Connection(str(copy))
    connection.execute(migrations()[0])
    connection.execute((Path(__file__).parent / "version_1.sql").read_text(encoding="utf-8"))
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()
    before = copy.read_bytes()
    restore(str(copy), str(tmp_path / "new.db"), replace=False, on_step=None)
    assert copy.read_bytes() == before
    assert assert_sound(tmp_path / "new.db")[-1].type == "restored"


def test_a_file_that_was_copied_back_manually_continues_ahead(path: Path, tmp_path: Path) -> None:
    """Its log was left behind, so it is refused until someone confirms that it may continue without it."""
    claim_and_die(path, "since")
    alone = tmp_path / "alone.db"
    shutil.copy(path, alone)
    with pytest.raises(octostore.Unreachable, match="-wal"):
        octostore.connect(url(alone))
    assert go_on_ahead(str(alone)) > AHEAD
    with octostore.connect(url(alone)) as store:
        assert (store.claim_job("next").fencing_token or 0) > AHEAD


WRITES: dict[str, Callable[[octostore.OctoStore, octostore.ClaimReply], object]] = {
    "heartbeat": lambda store, had: store.heartbeat_job("job", had.lease_id or "", fencing_token=had.fencing_token),
    "checkpoint": lambda store, had: store.checkpoint_job(
        "job", had.lease_id or "", 1, fencing_token=had.fencing_token
    ),
    "release": lambda store, had: store.release_job("job", had.lease_id or "", fencing_token=had.fencing_token),
}


@pytest.mark.parametrize("name", WRITES)
def test_an_owner_learns_that_the_store_has_gone_back_in_time(path: Path, tmp_path: Path, name: str) -> None:
    """An older file was copied back without the claim in it: the store cannot know that the claim is lost."""
    older = tmp_path / "older.db"
    shutil.copy(path, older)
    with octostore.connect(url(path)) as store:
        had = store.claim_job("job", "ann")
    with octostore.connect(url(older)) as store:
        with pytest.raises(octostore.Unreachable, match="gone back in time") as raised:
            WRITES[name](store, had)
        assert raised.value.reason == "restored_behind"
        go_on_ahead(str(older))
        with pytest.raises(octostore.LeaseLost):
            WRITES[name](store, had)


def test_a_held_claim_sends_its_fencing_token(path: Path, tmp_path: Path) -> None:
    older = tmp_path / "older.db"
    shutil.copy(path, older)
    with (
        octostore.connect(url(path)) as store,
        octostore.connect(url(older)) as behind,
        store.hold("job", owner="ann") as held,
    ):
        port, held._port = held._port, behind._port
        with pytest.raises(octostore.Unreachable) as raised:
            held.checkpoint({"step": 1})
        held._port = port
    assert raised.value.reason == "restored_behind"
