"""Signals to `octostore run` are for the command, and its exit code is that of the command."""

import random
import signal
import time
from pathlib import Path

import octostore as library
from tests.support.processes import ROOT, until
from tests.support.running import (
    FOREVER,
    PYTHON,
    Octostore,
    Running,
    Served,
    children_of,
    is_alive,
    signals_of,
    types_of,
)
from tests.support.starting import DEAF, SCRIPT

NOTING = str(ROOT / "tests" / "supervise" / "commands" / "noting.py")
FORWARDED = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM]
ENDING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1]
TRIES = 6


def passes_signals_on(run: Running) -> bool:
    """Which it does from the moment on when it claims."""
    return signal.SIGTERM in signals_of(run.pid, "SigCgt")


def command_of(run: Running) -> int:
    """Once it has become what it is to be."""
    guardian = run.guardian
    until(lambda: any(b"sleep" in name_of(pid) for pid in children_of(guardian)))
    return children_of(guardian)[0]


def name_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/comm").read_bytes()


def test_signals_are_passed_on(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    run = octostore.start("run", "job", "--", *PYTHON, NOTING, str(noted), program=SCRIPT)
    expected = "ready\n"
    for number in FORWARDED:
        until(lambda: noted.exists() and noted.read_text() == expected)  # noqa: B023  # it is called at once
        run.send(number)
        expected += f"{number.name}\n"
    assert run.wait().code == 7
    assert noted.read_text() == expected
    # Whoever is told to stop has not failed.
    assert types_of(store) == ["claimed", "released"]


def test_a_signal_reaches_all_of_the_group_and_what_has_left_it_is_stopped(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    script = "sleep 600 & echo $! > member; setsid sleep 600 & echo $! > away; echo ready; wait"
    run = octostore.start("run", "job", "--", "bash", "-c", script)
    until(lambda: run.out == "ready\n")
    pids = [int((tmp_path / name).read_text()) for name in ("member", "away")]
    assert all(is_alive(pid) for pid in pids)
    run.send(signal.SIGTERM)
    assert run.wait().code == 143
    assert not any(is_alive(pid) for pid in pids)
    assert types_of(store) == ["claimed", "released"]


def test_the_exit_code_is_that_of_the_command(octostore: Octostore, store: library.OctoStore) -> None:
    expected = {"exit 0": 0, "exit 1": 1, "exit 20": 20, "exit 255": 255, "kill -KILL $$": 137, "kill -SEGV $$": 139}
    runs = {
        script: octostore.start("run", f"job-{number}", "--", "bash", "-c", f"ulimit -c 0; {script}")
        for number, script in enumerate(expected)
    }
    assert {script: run.wait().code for script, run in runs.items()} == expected
    errors = [store.get_job(f"job-{number}").error for number in range(len(expected))]
    assert errors == [None, "exit code 1", "exit code 20", "exit code 255", "killed by SIGKILL", "killed by SIGSEGV"]


def test_a_command_that_does_not_exist_claims_nothing(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    (tmp_path / "no-program").write_text("hello")
    (tmp_path / "folder").mkdir()
    expected = {"no-such-command": 127, "./no-such-file": 127, "": 127, "./no-program": 126, "./folder": 126}
    runs = {command: octostore.start("run", "job", "--", command) for command in expected}
    queue = octostore.start("work", "queue", "--", "no-such-command")
    assert {command: run.wait().code for command, run in runs.items()} == expected
    assert queue.wait().code == 127
    assert list(store.events()) == []


def test_a_program_that_the_system_refuses_is_a_failure(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    assert octostore.run("run", "job", "--", "./program").code == 126
    assert store.get_job("job").error == "the command could not be started: No such file or directory"


def test_what_was_ignored_before_is_ignored_by_the_command_and_nothing_else(octostore: Octostore) -> None:
    usual = octostore.start("run", "usual", "--", "sleep", FOREVER, program=SCRIPT)
    nohup = octostore.shell(f"trap '' HUP; exec octostore run nohup -- sleep {FOREVER}")
    assert signals_of(command_of(usual), "SigIgn") == signals_of(command_of(usual), "SigBlk") == set()
    assert signals_of(command_of(nohup), "SigIgn") == {signal.SIGHUP}
    for run in (usual, nohup):
        run.send(signal.SIGHUP)
    assert usual.wait().code == 129
    nohup.send(signal.SIGTERM)
    assert nohup.wait().code == 143


# While it waits for the job


def check_leaves_nothing(octostore: Octostore, store: library.OctoStore, folder: Path) -> None:
    held = store.claim_job("job", "somebody", ttl=600)
    assert held.lease_id is not None
    runs = [octostore.start("run", "job", "--wait", FOREVER, "--", "touch", "ran") for _ in ENDING]
    until(lambda: all("waiting up to" in run.err for run in runs))
    for run, number in zip(runs, ENDING, strict=True):
        run.send(number)
    assert [run.wait().code for run in runs] == [128 + number for number in ENDING]
    store.release_job("job", held.lease_id)
    # Whoever comes next gets it at once, and is not behind anybody in line.
    assert store.claim_job("job", "next").status == "claimed"
    assert types_of(store) == ["claimed", "released", "claimed"]
    assert not (folder / "ran").exists()


def test_a_signal_ends_the_wait_and_leaves_no_claim(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    check_leaves_nothing(octostore, store, tmp_path)


def test_a_signal_ends_the_wait_at_a_server_and_leaves_no_claim(served: Served, tmp_path: Path) -> None:
    with library.connect(served.server.url, token=served.server.token) as store:
        check_leaves_nothing(served.octostore, store, tmp_path)


def test_a_signal_is_heard_whatever_claiming_is_doing(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    run = octostore.start("run", "job", "--", "touch", "ran", program=DEAF)
    until((tmp_path / "asking").exists)
    run.send(signal.SIGTERM)
    assert run.wait() == (143, "", "")
    assert store.get_job("job").status == "free"
    assert not (tmp_path / "ran").exists()


def check_leaves_nothing_at_any_moment(octostore: Octostore, path: Path) -> None:
    """In the middle of a claim, too: which may have been granted, with nobody there to hear of it."""
    dice = random.Random(4)
    runs = [octostore.start("run", f"job-{number}", "--", "sleep", FOREVER) for number in range(TRIES)]
    for run in runs:
        until(lambda run=run: passes_signals_on(run))  # type: ignore[misc]
        time.sleep(dice.uniform(0, 0.03))
        run.send(signal.SIGTERM)
    assert [run.wait().code for run in runs] == [143] * TRIES
    with library.connect(f"sqlite:///{path}") as store:
        assert {store.get_job(f"job-{number}").status for number in range(TRIES)} == {"free"}


def test_a_signal_at_any_moment_leaves_no_claim(octostore: Octostore, path: Path) -> None:
    check_leaves_nothing_at_any_moment(octostore, path)


def test_a_signal_at_any_moment_leaves_no_claim_at_a_server(served: Served) -> None:
    check_leaves_nothing_at_any_moment(served.octostore, served.path)
