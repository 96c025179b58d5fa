"""`octostore run` forwards its signals to the command, and exits with the command's exit code."""

import random
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import octostore as library
from octostore.wire.tokens import new_token
from tests.support.processes import ROOT, until
from tests.support.proxy import Exchange, Proxy, lose_the_response, pass_on, pass_on_after, reset, say_nothing
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
from tests.support.starting import DEAF, HURRIED, SCRIPT

PATIENT = (sys.executable, "-m", "tests.supervise.commands.patient")
NOTING = str(ROOT / "tests" / "supervise" / "commands" / "noting.py")
FORWARDED = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM]
ENDING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1]
TRIES = 6


def is_forwarding_signals(run: Running) -> bool:
    """True from the moment it claims."""
    return signal.SIGTERM in signals_of(run.pid, "SigCgt")


def command_of(run: Running) -> int:
    """The pid of the command, after its exec."""
    guardian = run.guardian
    until(lambda: any(b"sleep" in name_of(pid) for pid in children_of(guardian)))
    return children_of(guardian)[0]


def name_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/comm").read_bytes()


def test_signals_are_forwarded(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    run = octostore.start("run", "job", "--", *PYTHON, NOTING, str(noted), program=SCRIPT)
    expected = "ready\n"
    for number in FORWARDED:
        until(lambda: noted.exists() and noted.read_text() == expected)  # noqa: B023  # called at once
        run.send(number)
        expected += f"{number.name}\n"
    assert run.wait().code == 7
    assert noted.read_text() == expected
    # A command that was asked to stop has not failed.
    assert types_of(store) == ["claimed", "released"]


def test_a_signal_reaches_the_whole_group_and_processes_that_left_it_are_stopped(
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


def test_run_exits_with_the_commands_exit_code(octostore: Octostore, store: library.OctoStore) -> None:
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


def test_a_program_that_the_system_refuses_to_start_is_a_failure(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    assert octostore.run("run", "job", "--", "./program").code == 126
    assert store.get_job("job").error == "the command could not be started: No such file or directory"


def test_the_command_ignores_only_the_signals_that_its_parent_ignored(octostore: Octostore) -> None:
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
    # The next caller gets it at once: no one is ahead of it in line.
    assert store.claim_job("job", "next").status == "claimed"
    assert types_of(store) == ["claimed", "released", "claimed"]
    assert not (folder / "ran").exists()


def test_a_signal_ends_the_wait_and_leaves_no_claim(
    octostore: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    check_leaves_nothing(octostore, store, tmp_path)


def test_a_signal_ends_the_wait_on_a_server_and_leaves_no_claim(served: Served, tmp_path: Path) -> None:
    with library.connect(served.server.url, token=served.server.token) as store:
        check_leaves_nothing(served.octostore, store, tmp_path)


def test_a_signal_works_even_if_the_claim_hangs(octostore: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    run = octostore.start("run", "job", "--", "touch", "ran", program=DEAF)
    until((tmp_path / "asking").exists)
    run.send(signal.SIGTERM)
    assert run.wait() == (143, "", "")
    assert store.get_job("job").status == "free"
    assert not (tmp_path / "ran").exists()


def check_leaves_nothing_at_any_moment(octostore: Octostore, path: Path) -> None:
    """Even in the middle of a claim, which may succeed after the caller is gone."""
    dice = random.Random(4)
    runs = [octostore.start("run", f"job-{number}", "--", "sleep", FOREVER) for number in range(TRIES)]
    for run in runs:
        until(lambda run=run: is_forwarding_signals(run))  # type: ignore[misc]
        time.sleep(dice.uniform(0, 0.03))
        run.send(signal.SIGTERM)
    assert [run.wait().code for run in runs] == [143] * TRIES
    with library.connect(f"sqlite:///{path}") as store:
        assert {store.get_job(f"job-{number}").status for number in range(TRIES)} == {"free"}


def test_a_signal_at_any_moment_leaves_no_claim(octostore: Octostore, path: Path) -> None:
    check_leaves_nothing_at_any_moment(octostore, path)


def test_a_signal_at_any_moment_leaves_no_claim_on_a_server(served: Served) -> None:
    check_leaves_nothing_at_any_moment(served.octostore, served.path)


# While the server cannot be reached


def test_a_signal_ends_the_attempt_to_reach_a_server(octostore: Octostore, tmp_path: Path) -> None:
    cases = [
        (reset, "fail", signal.SIGTERM),
        (reset, "wait", signal.SIGINT),
        (say_nothing, "fail", signal.SIGINT),
        (say_nothing, "wait", signal.SIGTERM),
    ]
    with ExitStack() as ending:
        servers = [ending.enter_context(Proxy()).always(act) for act, _, _ in cases]
        token = new_token()
        runs = [
            octostore.start(
                *("run", "job", "--on-unreachable", how, "--", "touch", "ran"),
                program=PATIENT,
                OCTOSTORE_URL=server.url,
                OCTOSTORE_TOKEN=token,
            )
            for server, (_, how, _) in zip(servers, cases, strict=True)
        ]
        until(lambda: all(server.has_seen(1) for server in servers))
        for run, (_, _, number) in zip(runs, cases, strict=True):
            run.send(number)
        assert [run.wait() for run in runs] == [(128 + number, "", "") for _, _, number in cases]
    assert not (tmp_path / "ran").exists()


def test_a_claim_whose_reply_arrives_after_a_signal_is_released(served: Served, tmp_path: Path) -> None:
    ended = threading.Event()
    with Proxy(served.server.port).then(pass_on, pass_on_after(ended)) as proxy:
        run = served.octostore.start("run", "job", "--ttl", FOREVER, "--", "touch", "ran", OCTOSTORE_URL=proxy.url)
        until(lambda: served.server.get("/jobs/job").json["status"] == "claimed")
        run.send(signal.SIGTERM)
        assert run.wait() == (143, "", "")
        ended.set()
    assert [event["type"] for event in served.server.events("job")] == ["claimed", "released"]
    assert not (tmp_path / "ran").exists()


def test_a_claim_whose_reply_was_lost_is_released_after_a_signal(served: Served, tmp_path: Path) -> None:
    is_silent = threading.Event()

    def say_so_and_nothing_else(exchange: Exchange) -> None:
        is_silent.set()
        say_nothing(exchange)

    with Proxy(served.server.port).then(pass_on, lose_the_response).always(reset) as proxy:
        run = served.octostore.start(
            *("run", "job", "--ttl", FOREVER, "--on-unreachable", "wait", "--", "touch", "ran"),
            program=HURRIED,
            OCTOSTORE_URL=proxy.url,
        )
        until(lambda: "retrying until the store can be reached" in run.err)
        proxy.always(say_so_and_nothing_else)
        until(is_silent.is_set)
        proxy.always(pass_on)
        run.send(signal.SIGTERM)
        assert run.wait().code == 143
    assert [event["type"] for event in served.server.events("job")] == ["claimed", "released"]
    assert not (tmp_path / "ran").exists()
