"""Hooks as clients call them: a process, a payload on stdin, and output in the client's own format."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from socket import socket
from typing import Any

import pytest

import octostore
from octostore.agents.hooks.memory import Remembered, SessionLease
from octostore.agents.hooks.payload import Payload
from octostore.agents.setup.clients import EVENTS as EVENTS_SET_UP
from octostore.agents.setup.clients import HOOK_LINE
from octostore.cli.hook_events import EVENTS as EVENTS_HANDLED
from octostore.cli.hook_events import LIFE_SECONDS
from octostore.keeping.leases import KeptLeases
from octostore.keeping.watching import agent_here
from octostore.wire.tokens import new_token
from tests.agents.payloads import CLIENTS, EVENTS
from tests.support.cli import Done, run_cli
from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.server import ServerProcess
from tests.support.starting import SCRIPT, start

SESSION = "0199f3c1-2222-7333-8444-555566667777"
OWNER = Payload(session_id=SESSION).owner
SLOW = ("no reply within", "has not answered")
every_client = pytest.mark.parametrize("client", CLIENTS)
every_event = pytest.mark.parametrize("event", EVENTS)


def hook(client: str, event: str, session: str = SESSION, **env: str) -> Done:
    """Call a hook; repeat the call if the machine was too busy, because a hook does not wait for the store."""
    name = {"stop-again": "stop", "after-compaction": "session-start"}.get(event, event)
    payload = json.dumps(CLIENTS[client](event, session))
    done = run_cli("hook", name, stdin=payload, **env)
    assert done.code == 0, done
    while any(word in done.out for word in SLOW) and "OCTOSTORE_URL" not in env:
        done = run_cli("hook", name, stdin=payload, **env)
    assert done.err == "", done
    return done


def context_in(done: Done, client: str) -> str:
    """What the agent reads."""
    document = done.json
    if client == "cursor":
        return str(document["additional_context"])
    assert document.keys() == {"hookSpecificOutput"}
    return str(document["hookSpecificOutput"]["additionalContext"])


def claim(*jobs: str, owner: str = OWNER) -> None:
    for job in jobs:
        assert run_cli("claim", job, "--keep", "--owner", owner, "--while-pid", "0").code == 0


@pytest.fixture(autouse=True)
def without_an_agent_above() -> None:
    """Hooks would use its name, and not the one in the payload."""
    if agent_here() is not None:
        pytest.skip("an agent runs these tests")


@pytest.fixture(autouse=True)
def released(home: Path) -> Iterator[None]:
    """Let no keeper outlive its test, and leave everyone else's alone."""
    yield
    assert KeptLeases.of_store(None)._folder.is_relative_to(home)
    for owner in {lease.owner for lease in KeptLeases.of_store(None).all()}:
        run_cli("mine", "--release-all", "--owner", owner)


def session() -> Any:
    with octostore.connect() as store:
        return store.get_session(SESSION)


def is_open(agent: str = OWNER) -> bool:
    try:
        return bool(session().status == "open" and session().agent == agent)
    except octostore.OctoStoreError:
        return False


# All hooks


def test_every_event_that_is_set_up_has_a_hook() -> None:
    assert EVENTS_SET_UP.keys() == EVENTS_HANDLED.keys() == set(EVENTS)


def test_a_hook_line_does_nothing_if_octostore_is_not_installed(tmp_path: Path) -> None:
    for event in EVENTS:
        done = subprocess.run(
            ["/bin/sh", "-c", HOOK_LINE.format(event=event)],
            env={"PATH": str(tmp_path)},
            input="{}",
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_hook_line_calls_octostore_if_it_is_installed() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", HOOK_LINE.format(event="session-start")],
        env={**os.environ, "PATH": f"{Path(SCRIPT[0]).parent}:{os.environ['PATH']}"},
        input=json.dumps(CLIENTS["claude"]("session-start", SESSION)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert OWNER in done.stdout


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "no JSON",
        "[]",
        '"session"',
        "null",
        "{",
        "{}",
        '{"session_id": null}',
        '{"session_id": 7}',
        '{"session_id": ""}',
        '{"session_id": {"a": 1}}',
        "[" * 100_000,
        '{"a": ' * 50_000,
        '{"session_id": "\\ud800',
        "\x00\x01",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_an_invalid_payload_does_not_stop_an_agent(payload: str) -> None:
    done = run_cli("hook", "stop", stdin=payload)
    assert (done.code, done.out) == (0, "")
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err


@every_client
def test_an_event_of_a_newer_setup_does_not_stop_an_agent(client: str) -> None:
    done = run_cli("hook", "of-a-newer-version", stdin=json.dumps(CLIENTS[client]("stop", SESSION)))
    assert done == Done(0, "", "")


def test_the_client_can_write_all_of_the_payload_of_an_unknown_event() -> None:
    with start([*SCRIPT, "hook", "of-a-newer-version"], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"tool_output": "' + b"x" * 1_000_000 + b'"}')
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


def test_a_hook_without_an_event_is_an_error() -> None:
    done = run_cli("hook", stdin="{}")
    assert (done.code, done.out) == (64, "")
    assert "the following arguments are required: EVENT" in done.err


@every_event
def test_a_hostile_session_id_does_no_harm(event: str, home: Path) -> None:
    payload = json.dumps(
        {"session_id": "../../x\n`id`\x1b[31m", "hook_event_name": "Stop", "source": ["x"], "status": ["x"]}
    )
    done = run_cli("hook", event, stdin=payload)
    assert done.code == 0
    assert "fault" not in done.err
    assert "\x1b" not in done.out + done.err
    assert "`id`" not in done.out
    assert [path for path in home.rglob("*x*") if "hooks" not in path.parts and path.suffix != ".db-shm"] == []


@every_client
@every_event
def test_an_unreachable_store_does_not_stop_an_agent(client: str, event: str) -> None:
    with closing(socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        done = run_cli(
            "hook",
            event,
            stdin=json.dumps(CLIENTS[client](event, SESSION)),
            OCTOSTORE_URL=url,
            OCTOSTORE_TOKEN=new_token(),
        )
    assert (done.code, done.err) == (0, "")
    says = {"session-start", "compaction", "stop"} - ({"stop"} if client == "cursor" else set())
    assert ("the store cannot be read now" in done.out or "The store cannot be read now" in done.out) == (event in says)
    if done.out:
        assert isinstance(done.json, dict)


# Session start


@every_client
def test_a_session_begins_with_what_its_agent_should_know(client: str) -> None:
    claim("build-1", owner="ann")
    text = context_in(hook(client, "session-start"), client)
    assert f"You are {OWNER}." in text
    assert 'build-1, "ann"' in text
    assert f"--owner {OWNER}" in text
    assert "octostore claim JOB --keep" in text
    until(is_open)
    opened_at = session().opened_at
    context_in(hook(client, "session-start"), client)
    until(lambda: session().heartbeat_at > opened_at)
    assert session().opened_at == opened_at


def test_claude_code_names_the_agent_in_its_shells(tmp_path: Path) -> None:
    file = tmp_path / "env"
    for _ in range(2):
        hook("claude", "session-start", CLAUDE_ENV_FILE=str(file))
    assert file.read_text(encoding="utf-8") == f"export OCTOSTORE_OWNER={OWNER}\n"


def test_an_agent_that_cannot_be_named_in_its_shells_still_gets_the_rest(tmp_path: Path) -> None:
    done = hook("claude", "session-start", CLAUDE_ENV_FILE=str(tmp_path / "no" / "folder"))
    assert f"--owner {OWNER}" in context_in(done, "claude")


def test_cursor_names_the_agent_in_its_session() -> None:
    assert hook("cursor", "session-start").json["env"] == {"OCTOSTORE_OWNER": OWNER}


@every_client
def test_an_agent_that_has_a_name_keeps_it(client: str, tmp_path: Path) -> None:
    done = hook(client, "session-start", OCTOSTORE_OWNER="ann", CLAUDE_ENV_FILE=str(tmp_path / "env"))
    assert "You are ann." in context_in(done, client)
    assert OWNER not in done.out
    assert not (tmp_path / "env").exists()
    until(lambda: is_open("ann"))


def test_two_sessions_are_two_agents_even_if_they_began_at_the_same_time() -> None:
    first, second = "0199f3c1-2222-7333-8444-555566667777", "0199f3c1-2222-7333-8444-999966667777"
    assert Payload(session_id=first).owner != Payload(session_id=second).owner


# Tool use


@every_client
def test_using_tools_sends_heartbeats_but_not_for_every_tool(client: str) -> None:
    claim("build-1")
    leases, remembered = KeptLeases.of_store(None), Remembered(None, SESSION)
    hook(client, "session-start")
    until(is_open)

    def age(seconds: float) -> float:
        """Pretend that the last heartbeat was this many seconds ago."""
        with remembered.memory() as memory:
            memory.life_at = time.time() - seconds
        os.utime(leases._folder_of(OWNER) / "alive", (1, 1))
        return float(session().heartbeat_at.timestamp())

    before = age(LIFE_SECONDS / 2)
    for _ in range(3):
        assert hook(client, "tool-use").out == ""
    assert leases.life_shown_at(OWNER) == 1
    assert session().heartbeat_at.timestamp() == before

    before = age(LIFE_SECONDS + 1)
    hook(client, "tool-use")
    assert (leases.life_shown_at(OWNER) or 0) > 1
    until(lambda: session().heartbeat_at.timestamp() > before)


def test_a_session_that_has_ended_is_resumed_by_the_next_tool() -> None:
    hook("claude", "session-start")
    until(is_open)
    remembered = Remembered(None, SESSION)
    with octostore.connect() as store:
        store.close_session(SESSION, lease_id=remembered.lease_id())
    with remembered.memory() as memory:
        memory.life_at = 0
    hook("claude", "tool-use")
    until(is_open)


def test_nobody_else_can_read_what_is_remembered(home: Path) -> None:
    hook("claude", "session-start")
    until(is_open)
    folder = home / "octostore" / "hooks"
    until(lambda: {path.suffix for path in folder.iterdir()} == {".json", ".lease"})
    assert all(path.stat().st_mode & 0o077 == 0 for path in (folder, *folder.iterdir()))
    assert "secret" not in repr(SessionLease("secret"))


# Compaction


def is_eventually_shown(client: str, event: str, text: str) -> bool:
    """Repeat the hook until the store replies in time."""
    done = hook(client, event)
    while text not in done.out:
        done = hook(client, event)
    return text in context_in(done, client)


def checkpoint(job: str, data: object) -> None:
    assert run_cli("checkpoint", job, json.dumps(data), "--owner", OWNER).code == 0


def test_what_is_held_survives_a_compaction_in_claude_code() -> None:
    claim("build-1", "build-2")
    checkpoint("build-1", {"next": "tests"})
    text = hook("claude", "compaction").out
    assert '- build-1: {"next": "tests"}' in text
    assert "- build-2: none yet" in text
    assert OWNER in text
    with pytest.raises(ValueError, match=r".*"):
        json.loads(text)  # JSON would be read as something else
    assert is_eventually_shown("claude", "after-compaction", "- build-2: none yet")


def test_a_checkpoint_cannot_control_the_terminal_or_start_a_line() -> None:
    claim("build-1")
    checkpoint("build-1", {"next": "a\n- build-9: \x1b[31m" + "x" * 5_000})
    lines = hook("claude", "compaction").out.splitlines()
    assert [line[:10] for line in lines if line.startswith("- ")] == ["- build-1:"]
    assert "\x1b" not in "".join(lines)
    assert max(map(len, lines)) < 1_000


def test_codex_tells_its_agent_after_a_compaction() -> None:
    claim("build-1")
    checkpoint("build-1", 7)
    assert hook("codex", "compaction").out == ""
    assert is_eventually_shown("codex", "after-compaction", "- build-1: 7")


def test_cursor_tells_its_agent_at_the_next_tool() -> None:
    claim("build-1")
    checkpoint("build-1", 7)
    assert hook("cursor", "compaction").out == ""
    assert is_eventually_shown("cursor", "tool-use", "- build-1: 7")
    assert hook("cursor", "tool-use").out == ""


@every_client
def test_hooks_print_nothing_if_no_job_is_held(client: str) -> None:
    for event in ("compaction", "stop", "tool-use"):
        assert hook(client, event).out == ""


# Stop


@every_client
def test_an_agent_that_stops_sees_once_what_it_holds(client: str) -> None:
    claim("build-1")
    claim("build-of-ann", owner="ann")
    output = hook(client, "stop").json
    text = output["followup_message"] if client == "cursor" else output["reason"]
    assert client == "cursor" or output["decision"] == "block"
    assert "You still hold build-1 in" in text
    assert f"octostore release --owner {OWNER} JOB --outcome done" in text
    assert hook(client, "stop").out == ""
    claim("build-2")
    assert hook(client, "stop-again").out == ""
    assert "You still hold build-2 in" in hook(client, "stop").out


def test_an_agent_that_was_interrupted_is_left_alone() -> None:
    claim("build-1")
    payload = CLIENTS["cursor"]("stop", SESSION) | {"status": "aborted"}
    assert run_cli("hook", "stop", stdin=json.dumps(payload)).out == ""


def test_claims_of_others_with_the_same_name_are_left_alone() -> None:
    """A person may use one name for several agents."""
    claim("build-of-ann", owner="ann")
    assert hook("claude", "stop", OCTOSTORE_OWNER="ann").out == ""
    hook("claude", "session-start", OCTOSTORE_OWNER="ann")
    until(lambda: is_open("ann"))
    hook("claude", "session-end", OCTOSTORE_OWNER="ann")
    until(lambda: session().status == "closed")
    with octostore.connect() as store:
        assert store.get_job_owner("build-of-ann") is not None


# Agents that are identified by their process


AGENT = """\
import subprocess, sys

for line in sys.stdin:
    done = subprocess.run(["/bin/sh", "-c", line], stdout=subprocess.PIPE, text=True)
    print(done.stdout.replace(chr(10), " "), flush=True)
"""


class Agent:
    """A client whose process can be found. Each of its commands runs in its own shell."""

    def __init__(self, folder: Path, client: str, session: str) -> None:
        script = folder / client
        script.write_text(AGENT, encoding="utf-8")
        self._payloads = {event: folder / f"{session}-{event}" for event in EVENTS}
        for event, path in self._payloads.items():
            path.write_text(json.dumps(CLIENTS[client](event, session)), encoding="utf-8")
        self.process = start(
            [sys.executable, str(script)],
            env={**os.environ, "PATH": f"{Path(SCRIPT[0]).parent}:{os.environ['PATH']}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.name = f"{client}-{self.process.pid}@{os.uname().nodename}"

    def run(self, line: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return str(self.process.stdout.readline())

    def hook(self, event: str) -> str:
        said = self.run(f"octostore hook {event} < {self._payloads[event]}")
        while any(word in said for word in SLOW):
            said = self.run(f"octostore hook {event} < {self._payloads[event]}")
        return said


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Callable[[str], Agent]]:
    started: list[Agent] = []

    def new(client: str, session: str = SESSION) -> Agent:
        started.append(Agent(tmp_path, client, session))
        return started[-1]

    yield new
    for agent in started:
        agent.process.communicate()


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_an_agent_need_not_say_who_it_is_if_its_process_does(client: str, agents: Callable[[str], Agent]) -> None:
    agent = agents(client)
    said = agent.hook("session-start")
    assert f"You are {agent.name}." in said
    assert "--owner" not in said
    until(lambda: is_open(agent.name))
    agent.run("octostore claim build-1 --keep")
    claim("build-of-ann", owner="ann")
    said = agent.hook("stop")
    assert "You still hold build-1 in" in said
    assert "`octostore release JOB --outcome done`" in said
    assert agent.hook("session-end").strip() == ""
    with octostore.connect() as store:
        until(lambda: [one.job_id for one in store.list_claimed_jobs()] == ["build-of-ann"])


def test_an_agent_sees_what_it_holds_through_its_mcp_server(agents: Callable[[str], Agent], tmp_path: Path) -> None:
    """The server uses the same name for the agent as its shell does."""
    agent = agents("claude")
    call = {"name": "claim_job", "arguments": {"job_id": "build-1"}}
    asks = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    (tmp_path / "asks").write_text(f"{asks}\n", encoding="utf-8")
    (tmp_path / "mcp").write_text(
        f"cd {tmp_path}; {{ cat asks; while [ ! -e over ]; do sleep 0.02; done; }} | octostore mcp > results &\n"
        "until grep -q claimed results; do sleep 0.02; done\n"
        f"while octostore hook stop < {SESSION}-stop > said; grep -q '{SLOW[0]}' said; do :; done\n"
        "touch over; wait; cat said",
        encoding="utf-8",
    )
    said = agent.run(f". {tmp_path}/mcp 2>&1")
    assert "You still hold build-1 in" in said
    with octostore.connect() as store:
        assert [event.agent for event in store.events(job_id="build-1")] == [agent.name] * 2


def test_one_cursor_process_has_many_agents(agents: Callable[[str], Agent]) -> None:
    said = agents("cursor").hook("session-start")
    assert f"You are {OWNER}." in said
    assert f"--owner {OWNER}" in said


def shows_life(owner: str, call: Callable[[], object]) -> bool:
    """Whether the call resets the silence of `owner`."""
    leases = KeptLeases.of_store(None)
    os.utime(leases._folder_of(owner) / "alive", (0, 0))
    call()
    return leases.life_shown_at(owner) != 0


def test_hooks_are_activity_under_the_name_that_their_agent_chose(agents: Callable[[str], Agent]) -> None:
    """As its commands are: it is the only owner here, apart from other agents."""
    agent, other = agents("claude"), agents("codex")
    agent.run("octostore claim build-1 --keep --owner ann")
    for event in ("tool-use", "compaction", "session-start"):
        assert shows_life("ann", lambda event=event: agent.hook(event)), event  # type: ignore[misc]
    assert not shows_life("ann", lambda: other.hook("compaction"))


def test_hooks_of_one_cursor_agent_are_not_activity_of_another(agents: Callable[[str], Agent]) -> None:
    agent = agents("cursor")
    agent.run("octostore claim build-1 --keep --owner another")
    for event in ("tool-use", "compaction", "session-start"):
        assert not shows_life("another", lambda event=event: agent.hook(event)), event  # type: ignore[misc]


def test_sessions_of_one_process_do_not_release_each_others_claims(agents: Callable[[str], Agent]) -> None:
    agent = agents("codex")
    agent.hook("session-start")
    until(lambda: is_open(agent.name))
    with octostore.connect() as store:
        other = store.open_session(agent=agent.name, session_id="another")
        agent.run("octostore claim build-1 --keep")
        assert agent.hook("stop").strip() == ""
        agent.hook("session-end")
        until(lambda: session().status == "closed")
        assert store.get_job_owner("build-1") is not None
        other.close()


# Session end


@every_client
def test_a_session_that_ends_releases_what_its_agent_holds(client: str, home: Path) -> None:
    hook(client, "session-start")
    until(is_open)
    claim("build-1", "build-2")
    claim("build-of-ann", owner="ann")
    assert hook(client, "session-end").out == ""
    with octostore.connect() as store:
        until(lambda: [one.job_id for one in store.list_claimed_jobs()] == ["build-of-ann"])
        until(lambda: session().status == "closed")
        (ended,) = store.get_job("build-1").previous
        assert (ended.how, ended.note) == ("released", "released when the agent's session ended")
    until(lambda: list((home / "octostore" / "hooks").iterdir()) == [])


def test_a_client_does_not_wait_for_work_in_the_background() -> None:
    """Its pipes are closed when the hook ends, although the hook's child still waits for a store that never replies."""
    with closing(socket()) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(PATIENCE_SECONDS)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run_cli(
            "hook",
            "tool-use",
            stdin=json.dumps(CLIENTS["claude"]("tool-use", SESSION)),
            OCTOSTORE_URL=url,
            OCTOSTORE_TOKEN=new_token(),
        )
        assert done == (0, "", "")
        with closing(silent.accept()[0]) as asking:
            assert asking.recv(1) != b""  # the child is still running, and calls the store


def test_files_of_sessions_without_an_end_event_are_cleaned_up(home: Path) -> None:
    hook("claude", "session-start")
    until(is_open)
    old = home / "octostore" / "hooks" / "old.lease"
    old.touch()
    os.utime(old, (1, 1))
    lease = Remembered(None, SESSION)._lease_path
    until(lease.exists)
    six_days_ago = time.time() - 6 * 86_400
    os.utime(lease, (six_days_ago, six_days_ago))
    hook("claude", "session-start")
    until(lambda: not old.exists())
    until(lambda: lease.stat().st_mtime > six_days_ago + 1)  # this session continues


def test_hooks_work_the_same_with_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerProcess(tmp_path / "server") as server:
        monkeypatch.setenv("OCTOSTORE_URL", server.url)
        monkeypatch.setenv("OCTOSTORE_TOKEN", server.token)
        assert f"You are {OWNER}." in context_in(hook("claude", "session-start"), "claude")
        until(is_open)
        claim("build-1")
        assert "You still hold build-1 in" in hook("claude", "stop").out
        hook("claude", "session-end")
        with octostore.connect() as store:
            until(lambda: list(store.list_claimed_jobs()) == [])
        until(lambda: session().status == "closed")
        server.check_has_not_failed()
