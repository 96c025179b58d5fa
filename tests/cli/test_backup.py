"""Backups and restored stores, and what commands say if there is no store."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import octostore
from tests.cli.conftest import Cli
from tests.support.cli import run_cli
from tests.support.processes import PATIENCE_SECONDS, ROOT
from tests.support.soundness import assert_sound
from tests.support.starting import start


def test_a_backup_is_made_and_restored_elsewhere(empty_store: str, tmp_path: Path) -> None:
    run_cli("claim", "old", "--owner", "ann", "--ttl", "1h")
    copy, elsewhere = tmp_path / "backup.db", tmp_path / "elsewhere.db"
    with octostore.connect(f"sqlite:///{empty_store}") as store:
        store_id = store.figures().store_id
    done = run_cli("backup", str(copy))
    assert done == (0, f"backed up store {store_id} up to event 1 to {copy}\n", "")
    done = run_cli("restore", str(copy), "--url", f"sqlite:///{elsewhere}")
    assert done.code == 0
    assert re.fullmatch(f"{elsewhere} continues with event [0-9,]+; no fencing token is issued twice\n", done.out)
    assert run_cli("owner", "old", "--url", f"sqlite:///{elsewhere}").out.startswith("ann has old")
    assert len(assert_sound(elsewhere)) == 2


def test_the_same_as_json(empty_store: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "backup.db")
    made = run_cli("backup", copy, "--json").json
    assert (made["file"], made["seq"], len(made["store_id"])) == (copy, 0, 32)
    replaced = run_cli("restore", copy, "--replace", "--json").json
    assert replaced["path"] == empty_store
    assert Path(replaced["replaced"]).exists()
    forward = run_cli("restore", "--forward", "--json").json
    assert (forward["path"], forward["replaced"]) == (empty_store, None)
    assert forward["seq"] > replaced["seq"] > 1_000_000_000


def test_nothing_is_overwritten(empty_store: str, tmp_path: Path) -> None:
    copy = tmp_path / "backup.db"
    assert run_cli("backup", str(copy)).code == 0
    before = copy.read_bytes(), Path(empty_store).read_bytes()
    again, over = run_cli("backup", str(copy)), run_cli("restore", str(copy))
    assert (again.code, over.code) == (64, 64)
    assert f"{copy} already exists" in again.err
    assert "--replace" in over.err
    assert (copy.read_bytes(), Path(empty_store).read_bytes()) == before


def test_a_refused_restore_says_what_to_do(empty_store: str, tmp_path: Path) -> None:
    copy, letter = tmp_path / "backup.db", tmp_path / "letter.txt"
    letter.write_text("dear ann")
    bad = run_cli("restore", "--replace", str(letter))
    assert (bad.code, bad.err) == (64, f"octostore: file {letter} is not a backup of a store\n")
    assert run_cli("backup", str(copy)).code == 0
    with octostore.connect(f"sqlite:///{empty_store}") as store:
        store.claim_job("job")
        used = run_cli("restore", "--replace", str(copy))
    assert used.code == 69
    assert "is in use, so it was not replaced" in used.err
    assert "stop the server and the workers that use the store" in used.err


@pytest.mark.parametrize("arguments", [[], ["f", "--forward"], ["--forward", "--replace"]])
def test_a_restore_needs_either_a_backup_or_forward(arguments: list[str]) -> None:
    done = run_cli("restore", *arguments)
    assert done.code == 64
    assert "restore needs either FILE or --forward" in done.err


@pytest.mark.parametrize(
    "line", ["backup copy.db --url memory:", "restore copy.db --url memory:", "restore copy.db --url postgresql://h/db"]
)
def test_only_a_file_is_backed_up_or_restored(line: str) -> None:
    done = run_cli(*line.split())
    assert done.code == 64
    assert done.err.startswith("octostore: url ")


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_backup_that_is_ended_leaves_nothing_behind(empty_store: str, tmp_path: Path, sign: signal.Signals) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.support.stalled_copy", "backup", str(folder / "copy.db")]
    environment = {**os.environ, "OCTOSTORE_URL": f"sqlite:///{empty_store}"}
    pipe = subprocess.PIPE
    with start(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True) as copying:
        assert copying.stdout is not None
        assert Path(copying.stdout.readline().strip()).parent == folder
        assert len(list(folder.iterdir())) == 1
        copying.send_signal(sign)
        assert copying.wait(PATIENCE_SECONDS) == 128 + sign
        assert copying.communicate()[1] == ""
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("empty_store")
def test_an_owner_learns_that_the_store_was_restored(tmp_path: Path) -> None:
    """Even one that only knows what `run` passed on to it."""
    older = tmp_path / "older.db"
    assert run_cli("backup", str(older)).code == 0
    claim = run_cli("claim", "job", "--json").json
    env = {"OCTOSTORE_LEASE_ID": claim["lease_id"], "OCTOSTORE_FENCING_TOKEN": str(claim["fencing_token"])}
    behind = {**env, "OCTOSTORE_URL": f"sqlite:///{older}"}
    for command in ("heartbeat", "release"):
        assert run_cli(command, "job", **{**behind, "OCTOSTORE_FENCING_TOKEN": ""}).code == 20
        for job in ({}, {"OCTOSTORE_JOB": "job"}):
            refused = run_cli(command, "job", "--json", **behind, **job)
            assert (refused.code, refused.json["reason"]) == (69, "restored_behind")
        assert run_cli(command, "job", **behind, OCTOSTORE_JOB="another").code == 20, "that number is another job's"
        assert run_cli(command, "job", **{**env, "OCTOSTORE_FENCING_TOKEN": "x"}).code == 64
        assert run_cli(command, "job", **env).code == 0


# Without a store

NEED_A_STORE = [
    ["owner", "job"],
    ["list"],
    ["list", "--status", "dead"],
    ["dead"],
    ["events"],
    ["events", "--verify"],
    ["events", "--export"],
    ["sessions"],
    ["health"],
    ["doctor"],
    ["token", "list"],
    ["backup", "copy.db"],
    ["heartbeat", "job", "--lease-id", "x"],
    ["release", "job", "--lease-id", "x"],
    ["cancel", "job"],
    ["recover"],
]


@pytest.mark.parametrize("arguments", NEED_A_STORE, ids=" ".join)
def test_a_command_that_needs_a_store_does_not_create_one(clean: Path, cli_here: Cli, arguments: list[str]) -> None:
    missing = clean / "typo.db"
    done = cli_here.call(*arguments, "--url", f"sqlite:///{missing}")
    assert done.code == 69
    message = f"there is no store at {missing}; the first claim or enqueue creates it"
    assert message in done.err + done.out
    assert not any(file.name.startswith("typo") for file in clean.iterdir())


@pytest.fixture
def cli_here(capsys: pytest.CaptureFixture[str], clean: Path) -> Cli:
    return Cli(capsys, octostore.connect("memory:"), clean)
