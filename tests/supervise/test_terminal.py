"""At a terminal, a command under `octostore run` behaves as it would without: it has the terminal and its keys."""

from collections.abc import Callable
from pathlib import Path

import pytest

import octostore as library
from tests.support.at_terminal import CTRL_C, CTRL_D, CTRL_Z, AtTerminal
from tests.support.processes import until
from tests.support.running import PYTHON, Octostore, is_alive, state_of
from tests.support.starting import PROGRAM

SHELL = ("bash", "--norc", "--noprofile", "--noediting", "-i")
TALK = (
    "import os; "
    "print('terminals', [os.isatty(n) for n in range(3)], 'foreground', os.tcgetpgrp(0) == os.getpgrp(), flush=True); "
    "print('heard', input(), flush=True); "
    "print('heard', input(), flush=True)"
)
COUNT = "import os, time\nopen('pid', 'w').write(f'{os.getpid()} ')\nwhile not os.path.exists('go'): time.sleep(0.01)"

Sit = Callable[..., AtTerminal]


@pytest.fixture
def sit(octostore: Octostore, tmp_path: Path) -> Sit:
    return lambda *command: AtTerminal(command, octostore.env, tmp_path)


def pid_in(folder: Path) -> int:
    """The pid of `COUNT`, after it has started."""
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().endswith(" "))
    return int((folder / "pid").read_text())


def last_outcome(store: library.OctoStore) -> object:
    return store.get_job("job").last_outcome


def test_the_command_has_the_terminal(sit: Sit, store: library.OctoStore) -> None:
    with sit(*PROGRAM, "run", "job", "--", *PYTHON, "-c", TALK) as terminal:
        terminal.see("terminals [True, True, True] foreground True\n")
        terminal.press("hello\n")
        terminal.see("heard hello\n")
        terminal.press("again\n")
        terminal.see("heard again\n")
        assert terminal.wait() == 0
    assert last_outcome(store) == "released"


def test_the_next_command_has_the_terminal_again(sit: Sit) -> None:
    # Not an interactive shell, which would take the terminal back by itself.
    script = "octostore run job -- bash -c 'read x; echo first $x'; read y; echo second $y"
    with sit("bash", "-c", script) as terminal:
        terminal.press("one\n")
        terminal.see("first one\n")
        terminal.press("two\n")
        terminal.see("second two\n")
        assert terminal.wait() == 0


def test_control_c_ends_the_command_and_releases_the_job(sit: Sit, store: library.OctoStore, tmp_path: Path) -> None:
    with sit(*PROGRAM, "run", "job", "--", *PYTHON, "-c", f"import signal; signal.signal(2, 0)\n{COUNT}") as terminal:
        command = pid_in(tmp_path)
        assert terminal.foreground() == command
        terminal.press(CTRL_C)
        assert terminal.wait() == 130
        assert not is_alive(command)
    assert last_outcome(store) == "released"
    assert [event.type for event in store.events()] == ["claimed", "released"]


def test_control_c_while_waiting_claims_nothing(sit: Sit, store: library.OctoStore) -> None:
    store.claim_job("job", "somebody", ttl=600)
    with sit(*SHELL) as terminal:
        terminal.enter("octostore run job --on-held fail --wait 600 -- true")
        terminal.see("waiting up to")
        terminal.press(CTRL_C)
        terminal.enter("echo code $?")
        terminal.see("code 130\n")
    assert [event.type for event in store.events()] == ["claimed"]


@pytest.mark.parametrize("by", ["itself", "a script"])
def test_control_z_stops_both_and_fg_continues(sit: Sit, store: library.OctoStore, tmp_path: Path, by: str) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    run = f"octostore run job -- {' '.join(PYTHON)} count.py"
    (tmp_path / "script").write_text(f"{run}\necho script $?\n")
    with sit(*SHELL) as terminal:
        terminal.enter(run if by == "itself" else "bash script")
        command = pid_in(tmp_path)
        holder = parent_of(parent_of(command))
        assert terminal.foreground() == command
        terminal.press(CTRL_Z)
        terminal.see("the lease lasts another")
        terminal.enter("echo back")  # in the shell
        terminal.see("back\n")
        assert (state_of(holder), state_of(command)) == ("T", "T")
        assert store.get_job("job").status == "claimed"
        terminal.enter("fg")
        until(lambda: terminal.foreground() == command)
        until(lambda: "T" not in {state_of(holder), state_of(command)})
        (tmp_path / "go").touch()
        terminal.enter("echo code $?")
        terminal.see("code 0\n")
    assert last_outcome(store) == "released"


def test_control_z_does_nothing_without_a_shell_to_continue_it(sit: Sit, tmp_path: Path) -> None:
    with sit(*PROGRAM, "run", "job", "--", *PYTHON, "-c", f"{COUNT}\nprint('heard', input())") as terminal:
        command = pid_in(tmp_path)
        terminal.press(CTRL_Z)
        (tmp_path / "go").touch()
        terminal.press("hello\n")
        terminal.see("heard hello\n")
        assert terminal.wait() == 0
        assert not is_alive(command)


def test_a_command_in_a_pipeline_reads_the_terminal(sit: Sit, store: library.OctoStore) -> None:
    with sit(*SHELL) as terminal:
        terminal.enter("octostore run job -- cat | sed 's/^/sed: /'")
        terminal.press("hello\n")
        terminal.see("sed: hello\n")
        terminal.press(CTRL_D)
        terminal.enter("echo codes ${PIPESTATUS[*]}")
        terminal.see("codes 0 0\n")
        terminal.enter("octostore run job -- cat | cat")
        terminal.press("hello\n")
        terminal.see("hello\nhello\n")
        terminal.press(CTRL_C)
        terminal.enter("echo codes ${PIPESTATUS[*]}")
        terminal.see("codes 130 ")
        terminal.enter("echo from above | octostore run job -- cat")
        terminal.see("from above\n")
        terminal.enter("exit")
        assert terminal.wait() == 0
    assert [event.type for event in store.events()] == ["claimed", "released"] * 3


def test_a_command_in_the_background_waits_for_its_turn_at_the_terminal(sit: Sit, store: library.OctoStore) -> None:
    with sit(*SHELL) as terminal:
        terminal.enter("set -b")  # reports changes of jobs at once
        terminal.enter(f"octostore run job -- {' '.join(PYTHON)} -c 'print(*map(str.upper, [input()]))' &")
        terminal.see("the lease lasts another")
        terminal.see("Stopped")
        terminal.press("\n")
        terminal.enter("fg")
        terminal.press("hello\n")
        terminal.see("HELLO\n")
        terminal.enter("echo code $?")
        terminal.see("code 0\n")
    assert last_outcome(store) == "released"


def test_a_stderr_that_is_a_terminal_stays_one(sit: Sit, store: library.OctoStore) -> None:
    script = "octostore run job -- bash -c 'test -t 2; echo said $? >&2; exit 3' < /dev/null | cat"
    with sit("bash", "-c", script) as terminal:
        terminal.see("said 0\n")
        assert terminal.wait() == 0
    assert store.get_job("job").error == "exit code 3"


def test_nothing_is_left_when_the_terminal_is_hung_up(sit: Sit, store: library.OctoStore, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT)
    with sit(*SHELL) as terminal:
        terminal.enter(f"octostore run job -- {' '.join(PYTHON)} count.py")
        command = pid_in(tmp_path)
        terminal.hang_up()
        until(lambda: not is_alive(command))
        until(lambda: store.get_job("job").claim is None)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
