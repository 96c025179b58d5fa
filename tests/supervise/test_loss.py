"""When the lease is lost, nothing of the command is left by the time another owner can claim the job."""

import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from subprocess import PIPE

import octostore as library
from octostore.client.signals import SIGNALLED
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.running import FOREVER, UNTIL_GO, Octostore, Served
from tests.support.server import ServerProcess
from tests.support.starting import HURRIED
from tests.support.starting import run as ran
from tests.support.survivors import ROLES, Survivor, stored_expiry


def wait_for_heartbeat(path: Path, job_id: str) -> None:
    """Wait for the next heartbeat, so that the test knows how much of the lease is left."""
    before = stored_expiry(path, job_id)
    until(lambda: stored_expiry(path, job_id) > before)


def test_force_releasing_a_job_kills_its_command(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    ttl = 3.0
    survivors = {how: Survivor(tmp_path / how, how) for how in ROLES}
    runs = {
        how: octostore.start("run", how, "--ttl", str(ttl), "--json", "--", *survivor.command)
        for how, survivor in survivors.items()
    }
    for how, survivor in survivors.items():
        survivor.started()
        store.force_release(how, reason="wrong machine")
    for how, run in runs.items():
        done = run.wait()
        assert done.code == 20
        ran = json.loads(done.out)
        assert (ran["is_lost"], ran["outcome"]) == (True, None)
        assert "is lost" in ran["why"]
        assert ": 'wrong machine')" in done.err, "a heartbeat brought the news, before the lease ended"
        claimed, released = store.events(job_id=how)
        assert (claimed.type, released.type) == ("claimed", "force_released")
        assert not survivors[how].is_alive()


# The server does not respond


def test_commands_survive_a_server_pause_of_half_a_lease(served: Served, tmp_path: Path) -> None:
    ttl = 8.0
    run = served.octostore.start("run", "job", "--ttl", str(ttl), "--", "bash", "-c", UNTIL_GO)
    until(lambda: served.server.get("/jobs/job").json["status"] == "claimed")
    wait_for_heartbeat(served.path, "job")
    served.server.process.send_signal(signal.SIGSTOP)
    time.sleep(ttl / 2)
    served.server.process.send_signal(signal.SIGCONT)
    wait_for_heartbeat(served.path, "job")
    (tmp_path / "go").touch()
    assert run.wait() == (0, "", "")
    assert [event["type"] for event in served.server.events("job")] == ["claimed", "released"]


def test_commands_survive_a_server_restart(served: Served, tmp_path: Path) -> None:
    ttl = 8.0
    run = served.octostore.start("run", "job", "--ttl", str(ttl), "--quiet", "--", "bash", "-c", UNTIL_GO)
    until(lambda: served.server.get("/jobs/job").json["status"] == "claimed")
    served.server.kill()
    until(lambda: "heartbeats for job are not getting through" in run.err)
    with ServerProcess(served.server.home, port=served.server.port) as again:
        wait_for_heartbeat(served.path, "job")
        until(lambda: "again" in run.err)
        (tmp_path / "go").touch()
        done = run.wait()
        assert [event["type"] for event in again.events("job")] == ["claimed", "released"]
    assert (done.code, done.out) == (0, "")
    missed, back = done.err.splitlines()
    assert re.fullmatch(
        r"octostore: heartbeats for job are not getting through "
        rf"\(cannot communicate with the server at {again.url}: .*\); "
        r"the command will be stopped at \d\d:\d\d:\d\d unless one gets through",
        missed,
    )
    assert back == "octostore: heartbeats for job are getting through again"


def test_if_a_lease_cannot_be_renewed_the_command_is_dead_before_it_expires(served: Served, tmp_path: Path) -> None:
    """However it tries to escape, and even if only `run` itself supervises it."""
    ways = {**{how: how for how in ROLES}, "unwatched": "ignoring", "unwatched-daemon": "daemon"}
    survivors = {job: Survivor(tmp_path / job, how) for job, how in ways.items()}
    runs = {
        job: served.octostore.start("run", job, "--ttl", "8", "--", *survivor.command)
        for job, survivor in survivors.items()
    }
    for survivor in survivors.values():
        survivor.started()
    for job in ("unwatched", "unwatched-daemon"):
        os.kill(runs[job].guardian, signal.SIGSTOP)
    served.server.process.send_signal(signal.SIGSTOP)
    left = {job: stored_expiry(served.path, job) - survivor.died() for job, survivor in survivors.items()}
    assert min(left.values()) > 0, left
    assert survivors["noting"].signals == ["SIGTERM"]
    # Ending needs no reply from the server.
    for run in runs.values():
        done = run.wait()
        assert done.code == 20
        assert "is lost: it could not be renewed in time" in done.err
    served.server.process.send_signal(signal.SIGCONT)
    for job in runs:
        assert served.server.post(f"/jobs/{job}/claim", {"owner": "next", "wait_seconds": 30}).json["owner"] == "next"
        assert [event["type"] for event in served.server.events(job)] == ["claimed", "expired", "claimed"]


def test_an_unreachable_server_when_a_command_starts_or_ends(served: Served, tmp_path: Path) -> None:
    ending = {
        "failing": (3, ["--ttl", "6"], "exit 3"),
        "fine": (0, ["--ttl", "6"], "exit 0"),
        "quiet": (0, ["--ttl", "6", "--quiet"], "exit 0"),
        "once": (69, ["--ttl", "6", "--once"], "exit 0"),  # the store does not know that it is done
        "patient": (3, ["--ttl", FOREVER], "exit 3"),
    }
    runs = {
        job: served.octostore.start("run", job, *options, "--", "bash", "-c", f"{UNTIL_GO}; {how}", program=HURRIED)
        for job, (_, options, how) in ending.items()
    }
    until(lambda: {served.server.get(f"/jobs/{job}").json["status"] for job in ending} == {"claimed"})
    served.server.kill()
    (tmp_path / "go").touch()
    starting = {"refused": "fail", "waiting": "wait", "stopped": "wait"}
    runs |= {
        job: served.octostore.start("run", job, "--on-unreachable", how, "--", "touch", job, program=HURRIED)
        for job, how in starting.items()
    }
    # It keeps trying as long as it has the job, but a signal ends the wait.
    until(lambda: "the store does not answer" in runs["patient"].err)
    runs["patient"].send(signal.SIGTERM)
    assert {job: runs[job].wait().code for job in ending} == {job: code for job, (code, _, _) in ending.items()}
    assert all("its claim could not be" in runs[job].err for job in ending)
    until(lambda: all("retrying" in runs[job].err for job in ("waiting", "stopped")))
    runs["stopped"].send(signal.SIGTERM)
    assert runs["stopped"].wait().code == 143
    assert runs["refused"].wait().code == 69
    with ServerProcess(served.server.home, port=served.server.port) as again:
        assert runs["waiting"].wait().code == 0
        events = {job: [event["type"] for event in again.events(job)] for job in starting}
    assert events == {"refused": [], "waiting": ["claimed", "released"], "stopped": []}
    assert [(tmp_path / job).exists() for job in starting] == [False, True, False]


def test_a_command_that_ended_during_an_outage_is_settled_afterwards(served: Served, tmp_path: Path) -> None:
    run = served.octostore.start("run", "job", "--once", "--", "bash", "-c", UNTIL_GO)
    until(lambda: served.server.get("/jobs/job").json["status"] == "claimed")
    served.server.kill()
    (tmp_path / "go").touch()
    until(lambda: "the store does not answer" in run.err)
    with ServerProcess(served.server.home, port=served.server.port) as again:
        assert run.wait().code == 0
        assert [event["type"] for event in again.events("job")] == ["claimed", "done"]


def test_a_loss_ends_its_own_command_and_no_other(path: Path, store: library.OctoStore) -> None:
    """However early or late the news arrives."""
    assert store
    command = [sys.executable, "-m", "tests.supervise.commands.losing", str(path)]
    done = ran(command, stdout=PIPE, timeout=PATIENCE_SECONDS, text=True)
    early, following = map(int, done.stdout.split())
    assert early in {SIGNALLED + signal.SIGTERM, SIGNALLED + signal.SIGKILL}
    assert following == SIGNALLED + signal.SIGUSR1, "the signal that the test ends it with"
