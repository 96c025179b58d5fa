"""`octostore demo`, the real command: piped, as JSON, on a terminal, and interrupted."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

import octostore
from octostore.cli.demo import messages as m
from octostore.cli.demo.plot import AGENTS, FATAL_STEP, JOB_ID, RESULT, STEPS, TTL_SECONDS
from octostore.cli.demo.race import Race
from octostore.cli.demo.team import AGENT_MODULE, Agent, Team
from octostore.wire.tokens import new_token
from tests.support.cli import LiveCli, run_cli
from tests.support.documents import blocks_of, check_printed
from tests.support.processes import PATIENCE_SECONDS, ROOT, free_port, until
from tests.support.starting import PROGRAM

# As a shell does: the terminal on stdin becomes the command's controlling terminal, which sends it Ctrl-C.
ON_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
COLUMNS = 80
CTRL_C = b"\x03"


class Place:
    """Where a demo runs, and where it must leave nothing behind."""

    def __init__(self, folder: Path) -> None:
        self.temporary = folder / "temporary"
        self.store = folder / "store"
        self.temporary.mkdir()
        self.environment = {"TMPDIR": str(self.temporary), "OCTOSTORE_HOME": str(self.store), "NO_COLOR": ""}

    def start(self, *options: str) -> LiveCli:
        return LiveCli("demo", *options, **self.environment)

    def agents(self) -> list[int]:
        """The pids of living agents: each was started for a store in the folder."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                url = b"OCTOSTORE_URL=sqlite:///" + os.fsencode(self.temporary)
                if (
                    AGENT_MODULE.encode() in (process / "cmdline").read_bytes()
                    and url in (process / "environ").read_bytes()
                ):
                    found.append(int(process.name))
        return found

    def check_nothing_is_left(self) -> None:
        assert list(self.temporary.iterdir()) == []
        assert self.agents() == []
        assert not self.store.exists()


class Screen:
    """A terminal with the demo on it."""

    def __init__(self, place: Place) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        command = [sys.executable, "-c", ON_TERMINAL, *PROGRAM, "demo"]
        environment = {**os.environ, **place.environment, "TERM": "xterm"}
        self.process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.painted = ""

    def read(self, until_it_says: str | None = None) -> None:
        """Read until this text appears, or until the end."""
        with suppress(OSError):  # nobody has the terminal open any more
            while until_it_says is None or until_it_says not in self.painted:
                self.painted += os.read(self._ours, 65_536).decode()

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def close(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        os.close(self._ours)
        return code


class Ran(NamedTuple):
    place: Place
    code: int
    output: str


class Runs(NamedTuple):
    plain: Ran
    json: Ran
    live: Ran

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.json.output.splitlines()]

    @property
    def happenings(self) -> list[dict[str, Any]]:
        return [document for document in self.documents if "what" in document]

    @property
    def events(self) -> list[dict[str, Any]]:
        return [document for document in self.documents if "seq" in document]

    def said(self, what: str) -> list[dict[str, Any]]:
        return [one for one in self.happenings if one["what"] == what]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """All at the same time: a demo mostly waits."""
    with ThreadPoolExecutor(3) as pool:
        plain = pool.submit(run_piped, Place(tmp_path_factory.mktemp("plain")))
        as_json = pool.submit(run_piped, Place(tmp_path_factory.mktemp("json")), "--json")
        live = pool.submit(run_live, Place(tmp_path_factory.mktemp("live")))
        return Runs(plain.result(), as_json.result(), live.result())


def run_piped(place: Place, *options: str) -> Ran:
    done = run_cli("demo", *options, **place.environment)
    return Ran(place, done.code, done.out)


def run_live(place: Place) -> Ran:
    screen = Screen(place)
    screen.read()
    return Ran(place, screen.close(), screen.painted)


# A whole run


@pytest.mark.parametrize("kind", Runs._fields)
def test_it_succeeds_and_leaves_nothing_behind(runs: Runs, kind: str) -> None:
    ran: Ran = getattr(runs, kind)
    assert ran.code == 0, ran.output
    ran.place.check_nothing_is_left()


def test_the_story_in_lines(runs: Runs) -> None:
    output = runs.plain.output
    (winner,) = re.findall(r"(agent-\d)  claimed it, and owns it", output)
    waiting = re.findall(rf"(agent-\d)  sees that {winner} has had it since [\d:]+ UTC", output)
    assert sorted([winner, *waiting]) == list(AGENTS)
    assert (
        len(re.findall(rf"{winner}  KILLED while running the tests .*: a real kill -9 of process \d+\n", output)) == 1
    )
    (heir,) = re.findall(rf'(agent-\d)  took over, and continues from {winner}\'s checkpoint: {{"step": 3}}', output)
    assert heir in waiting
    assert f'{heir}  finished it, with the result {{"pr": 77}}' in output
    observers = re.findall(r'(agent-\d)  sees that it is done, with the result {"pr": 77}', output)
    assert sorted([winner, heir, *observers]) == list(AGENTS)


def test_the_story_in_the_event_log(runs: Runs) -> None:
    _, _, log = runs.plain.output.partition("What the event log says:\n")
    claimed, expired, taken_over, done = (line.split("  ")[-1] for line in log.splitlines()[:4])
    winner, heir = claimed.split()[0], done.split()[0]
    assert winner != heir
    assert claimed == f"{winner} claimed it"
    assert expired.startswith(f"{winner} disappeared while running the tests: no heartbeat since")
    assert taken_over == f"{heir} took over from {winner} (attempt 2)"
    assert done == f"{heir} finished it (pull request 77 is open)"


def test_its_lines_fit_a_page_and_end_with_what_to_try_next(runs: Runs) -> None:
    lines = runs.plain.output.splitlines()
    assert len(lines) <= 32
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in runs.plain.output
    assert [line.partition("#")[0].strip() for line in lines[-3:]] == [
        "octostore run nightly-report -- ./report.sh",
        "octostore owner nightly-report",
        "octostore list --watch",
    ]


def test_the_readme_shows_what_it_prints(runs: Runs) -> None:
    (shown,) = [block.text for block in blocks_of(ROOT / "README.md", "console") if "$ octostore demo" in block.text]
    # The column of seconds is wider after ten seconds.
    check_printed(*(re.sub(" +", " ", text) for text in (shown.removeprefix("$ octostore demo\n"), runs.plain.output)))


def test_what_happens_as_json(runs: Runs) -> None:
    assert all({"elapsed", "agent", "pid"} <= one.keys() for one in runs.happenings)
    first, second = runs.said("claimed")
    assert (first["took_over_from"], first["checkpoint"]) == (None, None)
    assert (second["took_over_from"], second["checkpoint"]) == (first["agent"], {"step": FATAL_STEP - 1})
    (killed,) = runs.said("killed")
    assert (killed["pid"], killed["signal"], killed["step"]) == (first["pid"], 9, FATAL_STEP)
    assert [one["owner"] for one in runs.said("held")] == [first["agent"]] * 4
    assert [(one["agent"], one["result"]) for one in runs.said("finished")] == [(second["agent"], RESULT)]
    assert [one["result"] for one in runs.said("done")] == [RESULT] * 3
    # The steps that the killed agent finished are not repeated; the one it was working on is.
    assert [one["step"] for one in runs.said("working")] == [*range(1, FATAL_STEP + 1), *range(FATAL_STEP, 6)]
    assert [one["step"] for one in runs.said("saved")] == list(range(1, len(STEPS) + 1))


def test_the_event_log_comes_last(runs: Runs) -> None:
    assert runs.documents[-4:] == runs.events
    assert [event["seq"] for event in runs.events] == [1, 2, 3, 4]
    assert [event["type"] for event in runs.events] == ["claimed", "expired", "claimed", "done"]
    first, second = (one["agent"] for one in runs.said("claimed"))
    assert [event["data"]["owner"] for event in runs.events] == [first, first, second, second]
    assert {event["job_id"] for event in runs.events} == {JOB_ID}


def test_the_takeover_is_measured_by_the_event_log(runs: Runs) -> None:
    (takeover,) = runs.said("taken_over")
    _, expired, claimed, _ = runs.events
    took = datetime.fromisoformat(claimed["at"]) - datetime.fromisoformat(expired["data"]["heartbeat_at"])
    assert takeover["seconds_after_last_heartbeat"] == took.total_seconds() >= TTL_SECONDS
    assert takeover["seconds_after_expiry"] == pytest.approx(took.total_seconds() - TTL_SECONDS)


# On a terminal


def test_on_a_terminal_it_is_redrawn_in_place(runs: Runs) -> None:
    lines = shown(runs.live.output)
    assert runs.live.output.count("STATE") > 10
    (head,) = (number for number, line in enumerate(lines) if re.fullmatch(r"AGENT +PID +STATE", line))
    agents = lines[head + 1 : head + 6]
    assert [line.split()[0] for line in agents] == list(AGENTS)
    assert sum("DEAD: a real kill -9 while running the tests" in line for line in agents) == 1
    assert sum('finished it: {"pr": 77} (after agent-' in line for line in agents) == 1
    assert sum('sees that it is done: {"pr": 77}' in line for line in agents) == 3
    assert re.fullmatch(
        r'agent-\d took over [\d.]+ s after the last heartbeat of agent-\d, with {"step": 3}',
        lines[head + 7],
    )
    assert max(map(len, lines[head : head + 8])) < COLUMNS


def test_on_a_terminal_anyone_can_see_who_has_it(runs: Runs) -> None:
    (winner,) = set(re.findall(r"waiting: (agent-\d) has had it since", runs.live.output))
    assert re.search(rf"{winner} has {JOB_ID}: heartbeat [\d.]+ s ago, expires in [\d.]+ s", runs.live.output)
    assert re.search(rf"\x1b\[32m{winner} +\d+  owner, step 1 of 5: reading the issue\x1b\[0m", runs.live.output)


def test_on_a_terminal_it_ends_with_the_story(runs: Runs) -> None:
    lines = shown(runs.live.output)
    story = lines[lines.index("What the event log says:") + 1 :]
    assert [line.split()[0] for line in story[:4]] == ["1", "2", "3", "4"]
    assert story[-1].lstrip().startswith("octostore list --watch")


def shown(painted: str) -> list[str]:
    """The lines on the screen at the end, as a terminal would show them that knows just what the demo sends."""
    lines = [""]
    row = 0
    for text, number, letter in re.findall(r"([^\x1b\r\n]+)|\x1b\[([\d;]*)([A-Za-z])|(?:\r?\n)", painted):
        if text:
            lines[row] += text
        elif letter == "A":
            row -= int(number)
            lines[row] = ""
        elif not letter:
            row += 1
            lines[row:] = [*lines[row:], *[""] * (row == len(lines))]
            lines[row] = ""
    return [line for line in lines if line]


# Interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    place = Place(tmp_path)
    with place.start() as demo:
        read_until(demo, "step 1 of 5")
        assert len(place.agents()) == len(AGENTS)
        demo.process.send_signal(number)
        done = demo.finish()
    assert (done.code, done.err) == (128 + number, "")
    place.check_nothing_is_left()


def test_ctrl_c_on_a_terminal_leaves_nothing_behind(tmp_path: Path) -> None:
    place = Place(tmp_path)
    screen = Screen(place)
    screen.read("owner, step 2 of 5")
    screen.press(CTRL_C)
    screen.read()
    assert screen.close() == 128 + signal.SIGINT
    assert "Traceback" not in screen.painted
    place.check_nothing_is_left()


def test_a_reader_that_closes_the_pipe_ends_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.start() as demo:
        read_until(demo, "claimed it")
        assert demo.process.stdout is not None
        demo.process.stdout.close()
        assert demo.process.wait(PATIENCE_SECONDS) == 141
    place.check_nothing_is_left()


def test_its_agents_end_when_it_is_killed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.start() as demo:
        read_until(demo, "claimed it")
        demo.process.kill()
    until(lambda: place.agents() == [])


def test_an_agent_that_fails_is_an_internal_error(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.start("--json") as demo:
        read_until(demo, '"what":"held"')
        os.kill(place.agents()[0], signal.SIGTERM)
        done = demo.finish()
    assert done.code == 70
    assert "ended with exit code -15" in json.loads(done.out.splitlines()[-1])["error"]
    place.check_nothing_is_left()


def test_no_agent_starts_if_the_store_cannot_be_reached(tmp_path: Path) -> None:
    place = Place(tmp_path)
    server = {"OCTOSTORE_URL": f"http://127.0.0.1:{free_port()}", "OCTOSTORE_TOKEN": new_token()}
    done = run_cli("demo", "--here", **place.environment, **server)
    assert (done.code, done.out) == (69, "")
    place.check_nothing_is_left()


def test_in_a_new_home_it_creates_the_store(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.start("--here", "--json") as demo:
        read_until(demo, '"what":"claimed"')
        demo.process.send_signal(signal.SIGINT)
        assert demo.finish().code == 130
    with octostore.connect(f"sqlite:///{place.store}/octostore.db") as store:
        assert next(iter(store.events())).type == "claimed"


def read_until(demo: LiveCli, text: str) -> None:
    while text not in demo.line():
        pass


# Messages that arrive out of order


class Scripted:
    """Replaces the processes: the messages that arrive together, and the last words of one that is killed."""

    def __init__(self, *heard: list[tuple[str, m.AgentMessage]], last_words: list[m.AgentMessage]) -> None:
        self._heard = list(heard)
        self._last_words = last_words
        self._agents = {name: cast("Agent", SimpleNamespace(name=name, pid=1)) for name in AGENTS}
        self.pids = dict.fromkeys(AGENTS, 1)

    @property
    def is_running(self) -> bool:
        return bool(self._heard)

    def start(self) -> None:
        pass

    def receive(self, _seconds: float) -> list[tuple[Agent, m.AgentMessage]]:
        return [(self._agents[name], said) for name, said in self._heard.pop(0)]

    def kill(self, _agent: Agent) -> list[m.AgentMessage]:
        return self._last_words


class Recorder:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def show(self, event: m.DemoEvent) -> None:
        self.lines.append((event.agent, type(event.message).__name__))

    def tick(self, elapsed: float) -> None:
        pass


def messages_shown(
    *heard: list[tuple[str, m.AgentMessage]], last_words: list[m.AgentMessage] | None = None
) -> list[tuple[str, str]]:
    team = Scripted([(name, m.Ready()) for name in AGENTS], *heard, last_words=last_words or [])
    show = Recorder()
    with octostore.connect("memory:") as store:
        Race(cast("Team", team), store, show, JOB_ID, time.monotonic()).run()
    return show.lines[len(AGENTS) :]


def test_a_cause_is_shown_before_its_effect() -> None:
    now = datetime.now(UTC)
    held = m.Held(owner="agent-2", claimed_at=now, heartbeat_at=now)
    claimed = m.Claimed(attempt=1, took_over_from=None, checkpoint=None)
    heard: list[list[tuple[str, m.AgentMessage]]] = [
        [("agent-1", held), ("agent-2", claimed)],
        [("agent-1", m.Done(result=None))],
        [("agent-3", held), ("agent-2", m.Finished(result=None))],
    ]
    assert messages_shown(*heard) == [
        ("agent-2", "Claimed"),
        ("agent-1", "Held"),
        ("agent-3", "Held"),
        ("agent-2", "Finished"),
        ("agent-1", "Done"),
    ]


def test_messages_from_before_the_kill_are_shown_before_it() -> None:
    working = m.Working(step=FATAL_STEP, steps=5, note="")
    saved = m.Saved(step=FATAL_STEP, steps=5, note="", checkpoint=None)
    lines = messages_shown([("agent-1", working), ("agent-1", saved)], last_words=[m.Working(step=5, steps=5, note="")])
    assert [what for _, what in lines] == ["Working", "Saved", "Working", "Killed"]
