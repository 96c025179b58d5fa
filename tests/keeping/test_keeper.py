"""The keeper: a real process that outlives the shell and releases the claim when it should."""

import json
import os
import shlex
import signal
import sys
from pathlib import Path
from subprocess import DEVNULL

import pytest

import octostore as library
from octostore.keeping.keeper import NOBODY_HEARD
from octostore.keeping.leases import KeptLease
from octostore.keeping.processes import find
from octostore.keeping.watching import agent_here
from tests.keeping.conftest import end_keepers, kept_leases
from tests.support.at_terminal import AtTerminal
from tests.support.postgres import empty_store, put_back
from tests.support.processes import free_port, until
from tests.support.running import FOREVER, UNTIL_GO, Octostore, is_alive, secrets_visible_of, shell_until, signals_of
from tests.support.server import ServerProcess
from tests.support.starting import SCRIPT, start

KEEP = ("claim", "job", "--keep", "--while-pid", "0")


def only_lease(folder: Path) -> KeptLease:
    (lease,) = kept_leases(folder)
    return lease


def read_when_written(path: Path) -> str:
    """The output that a shell redirects to `path`."""
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    return path.read_text()


def wait_for_heartbeat(store: library.OctoStore, job_id: str = "job") -> None:
    before = store.get_job_owner(job_id)
    assert before is not None

    def has_heartbeat() -> bool:
        now = store.get_job_owner(job_id)
        return now is not None and now.heartbeat_at > before.heartbeat_at

    until(has_heartbeat)


def release_note(store: library.OctoStore, job_id: str = "job") -> str:
    """Wait for the claim to be released, which does not count as an attempt, and return its note."""
    until(lambda: store.get_job_owner(job_id) is None)
    job = store.get_job(job_id)
    (ended,) = job.previous
    assert (ended.how, job.attempts, job.status) == ("released", 0, "free")
    return ended.note or ""


def test_it_outlives_the_shell_and_heartbeats(agent: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    script = 'lease=$(octostore claim job --keep --ttl 2 --while-pid 0); echo "$lease"; kill -HUP 0'
    shell = agent.shell(f"setsid --wait bash -c {shlex.quote(script)}")
    assert shell.wait().code != 0, "the shell and its process group got SIGHUP"
    assert "claimed job for agent-3" in shell.out
    lease = only_lease(tmp_path)
    pid = lease.keeper.pid
    os.kill(pid, signal.SIGHUP)
    wait_for_heartbeat(store)
    assert is_alive(pid)
    assert f"  kept       by process {pid} until you release it, or there is no octostore command for 10m" in shell.out
    owner = store.get_job_owner("job")
    assert owner is not None
    assert owner.pid == pid, "the owner's pid is the process that holds the claim"
    # It shares nothing with the shell.
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    assert {Path(f"/proc/{pid}/fd/{number}").readlink() for number in range(3)} == {Path(os.devnull)}
    assert os.getsid(pid) not in {pid, os.getsid(0)}, "a new session that it does not lead, so it never gets a terminal"
    assert signal.SIGINT in signals_of(pid, "SigIgn")


def test_no_command_shows_a_lease_id(agent: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    output = agent.start(*KEEP, "--json", program=SCRIPT).wait().out
    for arguments in (
        KEEP,
        ("progress", "job", "testing"),
        ("checkpoint", "job", '{"step": 1}'),
        ("mine",),
        ("prime",),
    ):
        for option in ((), ("--json",)):
            done = agent.run(*arguments, *option)
            output += done.out + done.err
    lease = only_lease(tmp_path)
    assert store.heartbeat_job("job", lease.lease_id).job_id == "job"
    assert lease.lease_id not in output
    assert lease.lease_id.encode() not in secrets_visible_of(lease.keeper.pid)
    assert b"OCTOSTORE_OWNER" in secrets_visible_of(lease.keeper.pid)
    assert agent.run("release").code == 0
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".lease"]


def test_a_release_ends_the_keeper_at_once(agent: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    assert agent.run(*KEEP, "--ttl", "1h").code == 0
    pid = only_lease(tmp_path).keeper.pid
    assert agent.run("release", "--outcome", "done", "--result", "7").code == 0
    until(lambda: not is_alive(pid))
    assert kept_leases(tmp_path) == []
    assert [event.type for event in store.events(job_id="job")] == ["claimed", "done"]


def test_a_killed_keeper_leaves_the_claim_to_its_ttl(
    agent: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    assert agent.run(*KEEP, "--ttl", "2").code == 0
    end_keepers(tmp_path)
    until(lambda: store.get_job_owner("job") is None)
    assert store.recover()[0].job_id == "job"
    assert store.get_job("job").previous[0].how == "expired"
    late = agent.run("checkpoint", '{"step": 9}', "--json")
    assert (late.code, json.loads(late.out)["code"]) == (20, "lease_lost"), "lost is not the same as never claimed"
    assert kept_leases(tmp_path) == [], "its file is deleted"
    assert agent.run("checkpoint", "job", "1").code == 64


def test_a_claim_without_a_keeper_is_still_ours_until_its_lease_expires(agent: Octostore, tmp_path: Path) -> None:
    assert agent.run(*KEEP).code == 0
    end_keepers(tmp_path)
    until(lambda: not only_lease(tmp_path).is_kept)
    heartbeat = agent.run("heartbeat")
    assert (heartbeat.code, "its keeper is gone, so send the next heartbeat in" in heartbeat.out) == (0, True)
    assert "its keeper is gone" in agent.run("mine").out
    assert agent.run("release").code == 0


def test_a_claim_is_released_when_the_watched_process_ends(
    agent: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    with start(["sleep", FOREVER], stdin=DEVNULL) as watched:
        claim = agent.run("claim", "job", "--keep", "--while-pid", str(watched.pid))
        assert f"until you release it, sleep ({watched.pid}) ends, or there is no octostore command for" in claim.out
        keeper = only_lease(tmp_path).keeper.pid
        watched.kill()
        watched.wait()
        assert release_note(store) == f"released by its keeper: sleep ({watched.pid}) has ended"
        until(lambda: not is_alive(keeper))
    late = agent.run("progress", "still here")
    assert (late.code, kept_leases(tmp_path)) == (20, [])
    assert f"note  released by its keeper: sleep ({watched.pid}) has ended" in late.err, "the reason too"


def test_a_claim_is_released_when_its_terminal_is_closed(
    agent: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    """The watched process is the terminal's shell, not a process in between."""
    if agent_here() is not None:
        pytest.skip("an agent runs the tests and would be watched instead")
    with AtTerminal(("bash", "--norc", "--noediting", "-i"), agent.env, tmp_path) as terminal:
        terminal.enter("sh -c 'octostore claim job --keep --json > claimed; true'")
        assert json.loads(read_when_written(tmp_path / "claimed"))["kept"]["watched"]["pid"] == terminal.pid
        terminal.hang_up()
        assert release_note(store) == f"released by its keeper: bash ({terminal.pid}) has ended"


def test_a_claim_is_released_when_its_agent_is_silent_for_too_long(
    agent: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    assert agent.run(*KEEP, "--max-silence", "1").code == 0
    assert release_note(store) == "released by its keeper: no octostore command from agent-3 for 1 s"
    until(lambda: not only_lease(tmp_path).is_kept)
    lost = agent.run("mine")
    assert "agent-3 holds nothing" in lost.out
    assert "lost job: " in lost.out
    assert "no octostore command from agent-3 for 1 s" in lost.out
    assert "lost" not in agent.run("mine").out, "it is reported once"


def is_activity(alive: Path, agent: Octostore, *arguments: str, **env: str) -> bool:
    """Whether a command resets the silence of the owner with this activity file."""
    os.utime(alive, (0, 0))
    agent.run(*arguments, **env)  # type: ignore[arg-type]
    return alive.stat().st_mtime > 0


def test_any_command_of_the_owner_counts_as_activity(agent: Octostore, tmp_path: Path) -> None:
    assert agent.run(*KEEP).code == 0
    (alive,) = tmp_path.rglob("alive")
    assert is_activity(alive, agent, "list")
    assert is_activity(alive, agent, "next", "nothing-here")
    assert is_activity(alive, agent, "list", "--no-such-option") is False, "it did not run"
    assert not is_activity(alive, agent, "list", OCTOSTORE_OWNER="bob")
    assert not is_activity(alive, agent, "claim", "other", "--owner", "bob")
    assert is_activity(alive, agent, "claim", "another", "--owner", "agent-3", OCTOSTORE_OWNER="bob")


def test_a_command_without_a_name_is_activity_of_the_only_owner_with_kept_claims(
    agent: Octostore, tmp_path: Path
) -> None:
    assert agent.run(*KEEP, "--owner", "a1", OCTOSTORE_OWNER="").code == 0
    (alive,) = tmp_path.rglob("alive")
    for command in (("list",), ("owner", "job"), ("mine",), ("heartbeat",), ("next", "nothing-here")):
        assert is_activity(alive, agent, *command, OCTOSTORE_OWNER=""), command
    assert agent.run("claim", "other", "--keep", "--while-pid", "0", "--owner", "a2", OCTOSTORE_OWNER="").code == 0
    for path in tmp_path.rglob("alive"):
        assert not is_activity(path, agent, "list", OCTOSTORE_OWNER=""), "it could be either"


def test_a_long_command_counts_as_activity_at_its_end_too(
    agent: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    assert agent.run(*KEEP).code == 0
    (alive,) = tmp_path.rglob("alive")
    lease = store.claim_job("other", "bob").lease_id or ""
    os.utime(alive, (0, 0))
    waiting = agent.start("claim", "other", "--wait", "30")
    until(lambda: alive.stat().st_mtime > 0)
    os.utime(alive, (0, 0))
    store.release_job("other", lease)
    assert waiting.wait().code == 0
    assert alive.stat().st_mtime > 0


def test_a_keeper_releases_its_claim_on_sigterm(agent: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    assert agent.run(*KEEP).code == 0
    os.kill(only_lease(tmp_path).keeper.pid, signal.SIGTERM)
    assert release_note(store) == "released by its keeper, which was asked to stop"


def test_a_claim_is_released_when_its_lease_file_is_deleted(
    agent: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    assert agent.run(*KEEP, "--max-silence", "2").code == 0  # the keeper looks for its file after this time
    (path,) = tmp_path.rglob("*.lease")
    path.unlink()
    assert release_note(store) == "released by its keeper: the file with its lease was deleted"


def test_a_keeper_ends_when_its_claim_is_force_released(
    agent: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    assert agent.run(*KEEP, "--ttl", "2").code == 0
    keeper = only_lease(tmp_path).keeper.pid
    store.force_release("job", reason="by hand")
    until(lambda: not is_alive(keeper))
    done = agent.run("release", "job", "--json")
    assert (done.code, json.loads(done.out)["ended"]["reason"]) == (20, "by hand")


def test_a_repeated_request_gets_no_second_keeper(agent: Octostore, tmp_path: Path) -> None:
    first = json.loads(agent.run(*KEEP, "--request-id", "r", "--json").out)
    again = json.loads(agent.run(*KEEP, "--request-id", "r", "--json").out)
    assert again["replayed"]
    assert again["kept"]["keeper_pid"] == first["kept"]["keeper_pid"]
    end_keepers(tmp_path)
    until(lambda: not only_lease(tmp_path).is_kept)
    revived = json.loads(agent.run(*KEEP, "--request-id", "r", "--json").out)
    assert only_lease(tmp_path).keeper.pid == revived["kept"]["keeper_pid"] != first["kept"]["keeper_pid"]


def test_an_empty_checkpoint_is_still_a_checkpoint(agent: Octostore) -> None:
    assert "  attempt    1, no checkpoint: start at the beginning\n" in agent.run(*KEEP, "--request-id", "r").out
    for empty in ("{}", "0"):
        agent.run("checkpoint", "job", empty)
        again = agent.run(*KEEP, "--request-id", "r").out
        assert f"  checkpoint {empty}\n" in again
        assert "  attempt    1\n" in again


def test_a_claim_that_is_not_granted_leaves_nothing_behind(
    agent: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    store.claim_job("job", "bob")
    before = set(tmp_path.iterdir())
    for arguments, code in (
        (KEEP, 11),
        (("next", "q", "--keep"), 10),
        ((*KEEP, "--lease"), 64),
        (("claim", "other", "--keep", "--owner", ""), 64),
        (("claim", "other", "--keep", "--while-pid", "4000000"), 64),
        (("claim", "other", "--while-pid", "1"), 64),
    ):
        done = agent.run(*arguments)
        assert (arguments, done.code) == (arguments, code), done
    assert agent.start(*KEEP, program=SCRIPT).wait().code == 11
    assert set(tmp_path.iterdir()) == before
    until(lambda: not agent.processes())


def test_a_claim_that_had_to_wait_is_kept(agent: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    lease = store.claim_job("job", "bob").lease_id or ""
    waiting = agent.start(*KEEP, "--wait", "30", "--ttl", "2", "--json")
    until(lambda: any(tmp_path.rglob("alive")))
    store.release_job("job", lease)
    assert json.loads(waiting.wait().out)["status"] == "claimed"
    wait_for_heartbeat(store)
    assert find(only_lease(tmp_path).keeper.pid) == only_lease(tmp_path).keeper


def test_a_claim_whose_keeper_died_before_it_was_granted_is_released(
    agent: Octostore, store: library.OctoStore, tmp_path: Path
) -> None:
    lease = store.claim_job("job", "bob").lease_id or ""
    waiting = agent.start(*KEEP, "--wait", "30", program=SCRIPT)
    keepers: list[int] = []

    def has_keeper() -> bool:
        """The process it is forked from has the same environment, and ends at once."""
        others = set(agent.processes()) - {waiting.pid}
        keepers[:] = [pid for pid in others if signal.SIGINT in signals_of(pid, "SigIgn")]
        return len(keepers) == 1

    until(has_keeper)
    os.kill(keepers[0], signal.SIGKILL)
    store.release_job("job", lease)
    done = waiting.wait()
    assert (done.code, "has ended; the claim was released" in done.err) == (69, True)
    assert store.get_job("job").status == "free"
    assert kept_leases(tmp_path) == []


HANDED_OVER = """
import os, sys
from octostore.cli.keep import _heartbeat_fields, _lease
from octostore.client.connect import connect
from octostore.core.errors import Unreachable
from octostore.keeping.keeper import Keeper, Order
from octostore.keeping.leases import KeptLeases
from octostore.stores.clock import boottime

url, how = sys.argv[1:]
with Keeper() as keeper, connect(url) as store:
    reply = store.claim_job("job", "agent-3", ttl=120, pid=keeper.process.pid)
    lease = _lease(reply, keeper.process, None, None)
    KeptLeases.of_store(url).prepare(lease.owner)
    KeptLeases.of_store(url).add(lease)
    if how == "late":
        store.force_release("job", reason="too late")
    asked_at = boottime() - 119
    if how == "killed":
        keeper._line.sendall(__import__("msgspec").json.encode(Order(url, lease, _heartbeat_fields(reply), asked_at)))
        os.kill(os.getpid(), 9)
    try:
        keeper.keep(Order(url, lease, _heartbeat_fields(reply), asked_at))
    except Unreachable as error:
        print(error)
"""


def test_a_claim_that_is_lost_before_the_keeper_has_it_is_not_reported_as_kept(agent: Octostore, url: str) -> None:
    """The command may have been stopped for longer than its TTL between claiming and handing over to the keeper."""
    done = agent.start("-c", HANDED_OVER, url, "late", program=[sys.executable]).wait()
    assert (done.code, done.err) == (0, "")
    assert "should keep the claim has ended" in done.out


def test_a_command_that_is_killed_while_it_hands_over_leaves_no_claim(
    agent: Octostore, store: library.OctoStore, url: str
) -> None:
    assert agent.start("-c", HANDED_OVER, url, "killed", program=[sys.executable]).wait().code == -signal.SIGKILL
    assert release_note(store) == NOBODY_HEARD


def test_a_store_with_a_relative_path(agent: Octostore, tmp_path: Path) -> None:
    assert agent.run(*KEEP, "--ttl", "2", OCTOSTORE_URL="sqlite:///relative.db").code == 0
    with library.connect(f"sqlite:///{tmp_path}/relative.db") as store:
        wait_for_heartbeat(store)
    assert agent.run("release", OCTOSTORE_URL=f"sqlite:///{tmp_path}/relative.db").code == 0


def test_a_relative_data_folder(agent: Octostore, tmp_path: Path) -> None:
    """The keeper's working directory is a different one."""
    assert agent.run(*KEEP, "--ttl", "2", OCTOSTORE_URL="", OCTOSTORE_HOME="data").code == 0
    with library.connect(f"sqlite:///{tmp_path}/data/octostore.db") as store:
        wait_for_heartbeat(store)


def test_agents_without_a_name_are_different_owners(agent: Octostore, store: library.OctoStore, tmp_path: Path) -> None:
    """Their process distinguishes them, and is also what is watched. Each of their commands runs in its own shell."""
    script = tmp_path / "claude"
    script.write_text(
        f"""#!/bin/bash
        [ $1 = none ] || bash -c "octostore claim $1 --keep --json > $1.claimed"
        touch $1.ready
        {shell_until("[ -e $1.release ]")}
        bash -c "octostore release > $1.released 2>&1"
        echo $? > $1.code
        {UNTIL_GO}
        """
    )
    script.chmod(0o700)
    names = ("one", "two", "none")
    started = {name: agent.shell(f"exec ./claude {name}", OCTOSTORE_OWNER="") for name in names}
    until(lambda: all((tmp_path / f"{name}.ready").exists() for name in names))
    for name in ("one", "two"):
        claim = json.loads((tmp_path / f"{name}.claimed").read_text())
        assert claim["owner"] == f"claude-{started[name].pid}@{os.uname().nodename}"
        assert claim["kept"]["watched"]["pid"] == started[name].pid
    (tmp_path / "none.release").touch()
    assert read_when_written(tmp_path / "none.code") == "64\n", "it cannot release the claims of others"
    (tmp_path / "one.release").touch()
    assert read_when_written(tmp_path / "one.code") == "0\n"
    assert read_when_written(tmp_path / "one.released") == "one is free\n"
    started["two"].process.kill()
    assert release_note(store, "two") == f"released by its keeper: claude ({started['two'].pid}) has ended"
    (tmp_path / "go").touch()


# Other stores


def test_on_a_server_that_restarts(tmp_path: Path) -> None:
    home, port = tmp_path / "server", free_port()
    with ServerProcess(home, port=port) as server:
        url, token = server.url, server.token
        with Octostore(url, tmp_path, OCTOSTORE_TOKEN=token, OCTOSTORE_OWNER="agent-3") as agent:
            try:
                assert agent.run(*KEEP, "--ttl", "15").code == 0
                assert server.stop() == 0
                with ServerProcess(home, port=port), library.connect(url, token=token) as store:
                    wait_for_heartbeat(store)
                    assert agent.run("checkpoint", '{"step": 2}').code == 0
                    assert agent.run("release", "--outcome", "done").code == 0
                    assert store.get_job("job").status == "done"
            finally:
                end_keepers(tmp_path)


def test_on_postgresql(tmp_path: Path) -> None:
    url = empty_store()
    with Octostore(url, tmp_path, OCTOSTORE_OWNER="agent-3") as agent, library.connect(url) as store:
        try:
            assert agent.run(*KEEP, "--ttl", "2").code == 0
            wait_for_heartbeat(store)
            keeper = only_lease(tmp_path).keeper.pid
            assert agent.run("checkpoint", '{"step": 2}').code == 0
            assert agent.run("release").code == 0
            until(lambda: not is_alive(keeper))
            assert store.claim_job("job", "bob").checkpoint == {"step": 2}
        finally:
            end_keepers(tmp_path)
    put_back(url)


@pytest.mark.parametrize("ttl", ["0.5", "100000"])
def test_a_ttl_out_of_range_is_refused(agent: Octostore, tmp_path: Path, ttl: str) -> None:
    before = set(tmp_path.iterdir())
    assert agent.run(*KEEP, "--ttl", ttl).code == 64
    assert set(tmp_path.iterdir()) == before
