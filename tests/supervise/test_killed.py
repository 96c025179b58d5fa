"""A command does not outlive its supervisors: when they are killed or paused, it ends."""

import os
import signal
from contextlib import closing
from pathlib import Path

import apsw

import octostore as library
from tests.support.processes import until
from tests.support.running import FOREVER, Octostore, Running, Served, state_of
from tests.support.starting import SCRIPT
from tests.support.survivors import Survivor, stored_expiry

TTL_SECONDS = 8
"""On a busy machine, a much shorter lease can be lost before its command has started."""


def check_takeover(octostore: Octostore, path: Path, folder: Path) -> None:
    survivors = {how: Survivor(folder / how, how) for how in ("setsid", "daemon")}
    firsts, seconds = {}, {}
    for how, survivor in survivors.items():
        firsts[how] = octostore.start(
            "run", how, "--owner", "first", "--ttl", str(TTL_SECONDS), "--", *survivor.command, program=SCRIPT
        )
        survivor.started()
        seconds[how] = octostore.start("run", how, "--owner", "second", "--wait", FOREVER, "--", "echo", "mine")
    until(lambda: all("waiting up to" in run.err for run in seconds.values()))
    for run in firsts.values():
        run.process.kill()
    died = {how: survivor.died() for how, survivor in survivors.items()}
    for run in seconds.values():
        assert run.wait()[:2] == (0, "mine\n")
    with library.connect(f"sqlite:///{path}") as store:
        for how in survivors:
            _, expired, claimed, released = store.events(job_id=how)
            assert [expired.type, claimed.type, released.type] == ["expired", "claimed", "released"]
            assert died[how] < claimed.at.timestamp()
            assert claimed.data["took_over_from"] == "first"


def test_killing_a_run_kills_its_command_and_the_next_run_takes_over(
    octostore: Octostore, path: Path, tmp_path: Path
) -> None:
    check_takeover(octostore, path, tmp_path)


def test_a_run_that_is_killed_is_taken_over_on_a_server_too(served: Served, tmp_path: Path) -> None:
    check_takeover(served.octostore, served.path, tmp_path)


def test_the_command_of_a_paused_run_is_dead_before_its_lease_expires(
    octostore: Octostore, store: library.OctoStore, path: Path, tmp_path: Path
) -> None:
    survivors = {how: Survivor(tmp_path / how, how) for how in ("noting", "daemon")}
    runs = {how: octostore.start("run", how, "--ttl", "8", "--", *one.command) for how, one in survivors.items()}
    for how, survivor in survivors.items():
        survivor.started()
        pause(runs[how])
        while not is_writable(path):  # it was paused in the middle of a heartbeat
            runs[how].send(signal.SIGCONT)
            pause(runs[how])
    left = {how: stored_expiry(path, how) - survivor.died() for how, survivor in survivors.items()}
    assert min(left.values()) > 0, left
    assert survivors["noting"].signals == ["SIGTERM"]
    for how, run in runs.items():
        successor = store.claim_job(how, "successor", wait=30)
        assert successor.status == "claimed"
        run.send(signal.SIGCONT)
        done = run.wait()
        assert done.code == 20
        assert "is lost: it could not be renewed in time" in done.err
        owner = store.get_job_owner(how)
        assert owner is not None
        assert owner.owner == "successor"


def test_killing_the_guardian_kills_the_command(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    survivors = {how: Survivor(tmp_path / how, how) for how in ("ignoring", "setsid", "daemon")}
    runs = {how: octostore.start("run", how, "--", *survivor.command) for how, survivor in survivors.items()}
    for how, survivor in survivors.items():
        survivor.started()
        os.kill(runs[how].guardian, signal.SIGKILL)
    for how, run in runs.items():
        assert run.wait().code == 137
        assert not survivors[how].is_alive()
        job = store.get_job(how)
        assert (job.status, job.last_outcome) == ("free", "failed")
        assert "supervising the command was killed" in (job.error or "")


def test_a_command_without_any_supervisor_is_killed_by_the_system(octostore: Octostore, tmp_path: Path) -> None:
    survivor = Survivor(tmp_path / "survivor", "ignoring")
    run = octostore.start("run", "job", "--", *survivor.command)
    survivor.started()
    pause(run)
    os.kill(run.guardian, signal.SIGKILL)
    survivor.died()
    assert state_of(run.pid) == "T"
    run.send(signal.SIGCONT)
    assert run.wait().code == 137


def pause(run: Running) -> None:
    run.send(signal.SIGSTOP)
    until(lambda: state_of(run.pid) == "T")


def is_writable(path: Path) -> bool:
    with closing(apsw.Connection(str(path))) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            return False
    return True
