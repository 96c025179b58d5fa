"""Which process is watched by default: never a wrapper that ends with the command."""

import os
import subprocess

import msgspec
import pytest

import octostore
from octostore.keeping import processes
from octostore.keeping.processes import Process, Seen, ancestors, find, is_running, open_handle, wake
from octostore.keeping.watching import chosen, chosen_agent, is_of_another_agent, name_of, watched
from tests.keeping.test_leases import lease
from tests.support.processes import until
from tests.support.running import FOREVER
from tests.support.starting import start


def seen(pid: int, *command: str, name: str = "", leads: bool = False) -> Seen:
    return Seen(Process(pid, "1", name or command[0]), 1, list(command), leads)


AGENT = seen(10, "claude", "--resume")
WRAPPER = seen(11, "bash", "-c", "octostore next q --keep")
TERMINAL = seen(12, "-zsh", leads=True)


@pytest.mark.parametrize(
    ("candidates", "pid"),
    [
        ([WRAPPER, AGENT, TERMINAL], 10),
        ([WRAPPER, TERMINAL], 12),
        ([TERMINAL, AGENT], 10),
        ([WRAPPER], None),
        ([], None),
        ([seen(1, "node", "/usr/lib/node_modules/.bin/codex")], 1),
        ([seen(1, "/usr/bin/node", "/opt/gemini.js", "-p", "x")], 1),
        ([seen(1, "/usr/bin/python3", "/home/me/.local/bin/aider")], 1),
        ([seen(1, "node", "cli.js", name="claude")], 1),
        ([seen(1, "node", "server.js")], None),
        ([seen(1, "vim", "claude")], None),
        ([seen(1, "/bin/bash", leads=True)], 1),
        ([seen(1, "/bin/bash", "--rcfile", "/tmp/rc", "-i", leads=True)], 1),
        ([seen(1, "/bin/bash", "-l", leads=True)], 1),
        ([seen(1, "/bin/bash", "--login", leads=True)], 1),
        ([seen(1, "/bin/bash", leads=False)], None),  # it leads no terminal session
        ([seen(1, "/bin/bash", "-c", "make", leads=True)], None),
        ([seen(1, "/bin/bash", "-lc", "make", leads=True)], None),
        ([seen(1, "/bin/sh", "build.sh", leads=True)], None),
        ([seen(1, "sshd", leads=True)], None),
        ([seen(1, "", leads=True)], None),
    ],
)
def test_the_watched_process_is_one_that_stays(candidates: list[Seen], pid: int | None) -> None:
    found = chosen(candidates)
    assert (found and found.pid) == pid


def test_two_agents_of_one_user_are_different_owners() -> None:
    codex = chosen_agent([WRAPPER, seen(10, "node", "/bin/codex", name="node")])
    assert codex == Process(10, "1", "codex")
    claude = chosen_agent([AGENT])
    assert (name_of(codex), name_of(claude)) == (f"codex-10@{os.uname().nodename}", f"claude-10@{os.uname().nodename}")
    assert name_of(chosen_agent([WRAPPER, TERMINAL])) is None
    theirs = msgspec.structs.replace(lease(), watched=claude)
    assert is_of_another_agent(theirs, Process(11, "1", "claude"))
    assert not is_of_another_agent(theirs, claude)
    assert not is_of_another_agent(theirs, None), "outside an agent, nothing is known"
    assert not is_of_another_agent(lease(), codex)
    shell = msgspec.structs.replace(lease(), watched=TERMINAL.process)
    assert not is_of_another_agent(shell, codex), "a person's terminal, which may have started the agent"


def test_the_watched_process_can_be_chosen() -> None:
    assert watched(0) is None
    assert watched(os.getpid()) == find(os.getpid())
    with pytest.raises(octostore.InvalidInput, match="process 4000000, which is not running"):
        watched(4_000_000)


def test_ancestors_start_with_the_parent_and_leave_out_init() -> None:
    pids = [one.process.pid for one in ancestors(os.getpid())]
    assert pids[:1] == ([os.getppid()] if os.getppid() > 1 else [])
    assert 1 not in pids


def test_a_zombie_counts_as_ended() -> None:
    with start(["sleep", FOREVER], stdin=subprocess.DEVNULL) as process:
        until(lambda: (found := find(process.pid)) is not None and found.name == "sleep")
        found = find(process.pid)
        assert found is not None
        handle = open_handle(found)
        assert handle is not None
        os.close(handle)
        process.kill()
        until(lambda: not is_running(found))
        assert find(process.pid) is None
        assert open_handle(found) is None
    assert open_handle(Process(os.getpid(), "another")) is None


def test_a_process_that_may_be_a_different_one_gets_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    with start(["sleep", FOREVER]) as sleeper:
        wake(Process(sleeper.pid, "before"))
        monkeypatch.setattr(processes, "_has_proc", lambda: False)  # a system without process start times
        assert is_running(Process(sleeper.pid))
        wake(Process(sleeper.pid))
        monkeypatch.undo()
        with pytest.raises(subprocess.TimeoutExpired):
            sleeper.wait(0.2)
        sleeper.kill()
