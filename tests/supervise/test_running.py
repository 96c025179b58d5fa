"""`octostore run`: one owner until the command, and everything it started, has ended."""

import os
import select
from pathlib import Path

import octostore as library
from tests.support.processes import until
from tests.support.running import PYTHON, UNTIL_GO, Octostore, Running, is_alive, shell_until, types_of
from tests.support.starting import SCRIPT
from tests.support.survivors import Survivor

TTL_SECONDS = 2
RACERS = 8
RACES = 5


def test_a_command_that_takes_longer_than_its_lease_keeps_the_job(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    run = octostore.start("run", "job", "--owner", "me", "--ttl", str(TTL_SECONDS), "--", "bash", "-c", UNTIL_GO)
    until(lambda: store.get_job("job").status == "claimed")
    rival = store.claim_job("job", "rival", wait=1.5 * TTL_SECONDS)
    (tmp_path / "go").touch()
    assert run.wait().code == 0
    assert (rival.status, rival.owner) == ("held", "me")
    assert rival.heartbeat_at is not None
    assert rival.claimed_at is not None
    assert (rival.heartbeat_at - rival.claimed_at).total_seconds() > TTL_SECONDS
    assert types_of(store, "job") == ["claimed", "released"]


def test_the_command_leads_its_own_process_group(octostore: Octostore) -> None:
    look = "import os; print(os.getpid(), os.getpgrp(), os.getsid(0))"
    run = octostore.start("run", "job", "--", *PYTHON, "-c", look, program=SCRIPT)
    pid, group, session = map(int, run.wait().out.split())
    assert group == pid
    assert group not in {run.pid, os.getpgrp()}
    assert session == os.getsid(0)


def test_the_job_is_held_until_everything_the_command_started_has_ended(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    ways = {"group": "bash", "session": "setsid bash", "daemon": "setsid --fork bash"}
    background = f"echo $$ > $OCTOSTORE_JOB.pid; {UNTIL_GO}; date +%s%3N > $OCTOSTORE_JOB.last_act"
    until_it_runs = shell_until("[ -s $OCTOSTORE_JOB.pid ]")
    runs = {
        job_id: octostore.start(
            *("run", job_id, "--ttl", str(TTL_SECONDS), "--"),
            *("bash", "-c", f"{way} -c '{background}' & {until_it_runs}; echo over; exit 3"),
        )
        for job_id, way in ways.items()
    }
    for run in runs.values():
        until(lambda run=run: "still running; the job is held" in run.err)  # type: ignore[misc]
        assert run.out == "over\n"
    rest = {job_id: int((tmp_path / f"{job_id}.pid").read_text()) for job_id in ways}
    # Longer than their leases had left when the commands ended.
    assert store.claim_job("daemon", "rival", wait=TTL_SECONDS).status == "held"
    assert all(is_alive(pid) for pid in rest.values())
    assert {store.get_job(job_id).status for job_id in ways} == {"claimed"}
    (tmp_path / "go").touch()
    for job_id, run in runs.items():
        assert run.wait().code == 3
        assert not is_alive(rest[job_id])
        claimed, failed = store.events(job_id=job_id)
        assert (claimed.type, failed.type) == ("claimed", "failed")
        assert failed.at.timestamp() * 1_000 >= int((tmp_path / f"{job_id}.last_act").read_text())


def test_stop_rest_stops_what_the_command_leaves_running(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    survivor = Survivor(tmp_path / "rest", "daemon")
    script = f"{' '.join(survivor.command)} & until ls rest/daemon* &>/dev/null; do sleep 0.02; done; exit 3"
    done = octostore.run("run", "job", "--stop-rest", "--stop-grace", "0.1", "--", "bash", "-c", script)
    assert done.code == 3
    assert not survivor.is_alive()
    assert len(survivor.pids) == 2
    assert types_of(store, "job") == ["claimed", "failed"]


def test_of_several_runs_started_at_once_exactly_one_runs(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    script = f"echo $OCTOSTORE_JOB >> ran; {UNTIL_GO}"
    for race in range(RACES):
        job_id = f"race-{race}"
        (tmp_path / "go").unlink(missing_ok=True)
        runs = [octostore.start("run", job_id, "--", "bash", "-c", script) for _ in range(RACERS)]
        _wait_for_all_but_one(runs)
        (tmp_path / "go").touch()
        assert sorted(run.wait().code for run in runs) == [0] + [11] * (RACERS - 1)
        assert types_of(store, job_id) == ["claimed", "released"]
    assert (tmp_path / "ran").read_text().split() == [f"race-{race}" for race in range(RACES)]


def _wait_for_all_but_one(runs: list[Running]) -> None:
    ends = [os.pidfd_open(run.pid) for run in runs]
    try:
        until(lambda: len(select.select(ends, [], [], 1)[0]) >= len(ends) - 1)
    finally:
        for end in ends:
            os.close(end)
