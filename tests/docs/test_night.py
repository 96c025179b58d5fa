"""What the page for three in the morning says to type, typed into a system with that very problem."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.documents import Machine, blocks_of, check_printed
from tests.support.mounting import may_mount
from tests.support.processes import ROOT, free_port, until
from tests.support.server import ServerProcess

PAGE = ROOT / "docs" / "how-to" / "at-three-in-the-morning.md"
TEXT = PAGE.read_text(encoding="utf-8")
UNREACHABLE = 69
JOB = "nightly-report"


def typed(heading: str) -> list[str]:
    return [block.text for block in blocks_of(PAGE, "sh", under=heading)]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path / "machine") as machine:
        yield machine


@pytest.fixture
def job(machine: Machine) -> str:
    machine.do(f"octostore claim {JOB} --owner ann --ttl 1h")
    return JOB


@pytest.mark.usefixtures("job")
def test_the_first_look(machine: Machine) -> None:
    look = blocks_of(PAGE, "sh")[0].text
    assert "running    1" in machine.do(look)


def test_the_table_leads_to_the_sections() -> None:
    headings = [part.splitlines()[0] for part in TEXT.split("\n## ")[1:]]
    assert all(f"](#{heading.lower().replace(' ', '-')})" in TEXT for heading in headings)


def test_a_job_that_never_ends(machine: Machine) -> None:
    deaf = machine.start(
        ["octostore", "run", JOB, "--ttl", "1m", "--", "sh", "-c", "trap '' TERM; echo deaf; sleep 600"]
    )
    deaf.hear("deaf")
    blocks = blocks_of(PAGE, under="A job is stuck")
    for block, after in pairwise(blocks):
        if block.kind == "sh":
            printed = machine.do(block.text)
            if after.kind == "text":
                check_printed(after.text, printed)
    code, printed = deaf.end()
    assert code == 20
    assert "does not react to stop" in printed


def test_a_server_that_was_killed(machine: Machine) -> None:
    start, look = typed("The server is dead")
    port = free_port()
    with ServerProcess(machine.folder / ".local/share/octostore", port=port) as server:
        machine.do(f"octostore claim {JOB} --owner ann --ttl 1h")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    machine.script("bin/systemctl", f"setsid octostore serve --port {port} > serve.log 2>&1 & echo $! > serve.pid")
    try:
        machine.do(start)
        until(lambda: "try: " in (machine.folder / "serve.log").read_text())
        machine.env["OCTOSTORE_URL"] = f"http://127.0.0.1:{port}"
        printed = machine.do(look)
    finally:
        subprocess.run(["kill", (machine.folder / "serve.pid").read_text().strip()], check=True)
    assert "nothing to recover" in printed
    assert "ann claimed it" in printed


@pytest.mark.skipif(not may_mount(), reason="a small disk cannot be mounted here")
def test_a_full_disk(machine: Machine) -> None:
    (look,) = typed("The disk is full")
    folder = machine.folder / ".local/share/octostore"
    folder.mkdir(parents=True)
    story = [
        f"mount -t tmpfs -o size=4m none {folder}",
        f"octostore claim {JOB} --owner ann",
        f"cp /dev/zero {folder}/ballast 2> /dev/null || true",
        f"({look}) || echo it ended with $?",
        f"rm {folder}/ballast",
        look,
        f"octostore heartbeat {JOB} --json || octostore owner {JOB}",
    ]
    code, printed = machine.start(["unshare", "--mount", "bash", "-euo", "pipefail", "-c", "\n".join(story)]).end()
    assert code == 0, printed
    full, _, room = printed.partition(f"it ended with {UNREACHABLE}")
    assert "free some disk space" in full
    assert "agrees with the store's" in room


def test_a_file_that_has_moved(machine: Machine, job: str) -> None:
    look, repair = typed("The file has moved")
    doctor, listing = look.splitlines()
    shutil.move(machine.folder / ".local/share/octostore/octostore.db", machine.folder / "found.db")
    assert "there is no store at" in machine.do(doctor, UNREACHABLE)
    machine.do(listing)
    assert f"ann has {job}" in machine.do(repair)
