"""Lose leases by the dozen, possibly on a busy machine, and see what their owners wrote until then."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import apsw

import octostore as library
from tests.support.processes import ROOT, until
from tests.support.running import PYTHON, Running, Served, children_of
from tests.support.starting import SCRIPT, start

COMMANDS = ROOT / "tests" / "supervise" / "commands"
PATIENCE_SECONDS = 120.0
LOAD_PER_CORE = 8
BUSY = "while :; do :; done"
WAYS = ("the server is stopped", "the store is away", "owners are paused", "guardians are paused")
UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice", "--")
"""Run as root, but without the right to raise priorities, like a user's processes."""


@contextmanager
def busy_machine() -> Iterator[None]:
    """Run eight busy processes per core."""
    with ExitStack() as stack:
        for _ in range((os.cpu_count() or 1) * LOAD_PER_CORE):
            process = start(["sh", "-c", BUSY])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


class Lost(NamedTuple):
    """A claim that expired, and the seconds between its owner's last write and the expiry."""

    how: str
    job_id: str
    left: float


class Owners:
    """Jobs on a server, claimed again and again by `run`, `work` and `hold`."""

    def __init__(self, served: Served, folder: Path, *, each: int, ttl: float, prefix: Sequence[str] = ()) -> None:
        folder.mkdir()
        self._served = served
        self._folder = folder
        self._each = each
        self._ttl = ttl
        self._prefix = prefix
        self._rounds: list[tuple[float, str]] = []
        self._terms = ("--ttl", str(ttl), "--quiet", "--no-stderr")
        self._writer = ("--", *PYTHON, str(COMMANDS / "writer.py"), str(folder))
        self._running: dict[str, Running] = {}

    def lose_all(self, how: str) -> None:
        """Lose all leases in one of the `WAYS`."""
        with library.connect(self._served.server.url, token=self._served.server.token) as store:
            for number in range(self._each):
                store.enqueue("write", job_id=f"work-{len(self._rounds)}-{number}", max_attempts=1)
        self._all_write()
        self._rounds.append((time.time(), how))
        match how:
            case "the server is stopped":
                self._pause([self._served.server.process.pid])
            case "the store is away":
                self._lock_file()
            case "owners are paused":
                self._pause(self._holders())
            case "guardians are paused":
                guardians = [guardian for holder in self._holders() for guardian in children_of(holder)]
                self._pause([self._served.server.process.pid, *guardians])

    def lost(self) -> list[Lost]:
        """Every expired claim in the log whose owner wrote something."""
        with library.connect(self._served.server.url, token=self._served.server.token) as store:
            expired = [event for event in store.events() if event.type == "expired"]
        return [
            Lost(self._how(ended_at), event.job_id or "", ended_at - _last_write(file))
            for event in expired
            if (file := self._folder / f"{event.job_id}.{event.data['fencing_token']}").exists()
            for ended_at in [event.data["ended_at"].timestamp()]
        ]

    def _how(self, ended_at: float) -> str:
        return next((how for began, how in reversed(self._rounds) if began < ended_at), "by itself")

    def _all_write(self) -> None:
        """Wait until each job has an owner that writes."""
        until(lambda: self._start() and len(self._writing()) == 3 * self._each, PATIENCE_SECONDS)

    def _start(self) -> bool:
        """Start whatever is not running."""
        jobs = [f"run-{number}" for number in range(self._each)]
        for job in jobs:
            self._keep_running(job, *SCRIPT, "run", job, "--wait", "20", *self._terms, *self._writer)
        concurrency = ("--concurrency", str(self._each))
        self._keep_running("work", *SCRIPT, "work", "default", *concurrency, *self._terms, *self._writer)
        held = [f"hold-{number}" for number in range(self._each)]
        program = (sys.executable, str(COMMANDS / "holder.py"))
        self._keep_running("hold", *program, str(self._folder), str(self._ttl), *held)
        return True

    def _keep_running(self, name: str, *command: str) -> None:
        if name not in self._running or self._running[name].process.poll() is not None:
            self._running[name] = self._served.octostore.start(*command, program=self._prefix)

    def _writing(self) -> set[str]:
        now = time.time()
        return {file.stem for file in self._folder.iterdir() if now - file.stat().st_mtime < self._ttl / 10}

    def _holders(self) -> list[int]:
        """The owners of commands. Not `hold`: a paused program cannot stop in time."""
        return [running.pid for name, running in self._running.items() if name != "hold"]

    def _lock_file(self) -> None:
        with closing(apsw.Connection(str(self._served.path))) as connection:
            connection.set_busy_timeout(30_000)
            connection.execute("BEGIN IMMEDIATE")
            self._outlast()
            connection.execute("ROLLBACK")

    def _pause(self, pids: Sequence[int]) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self._outlast()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _outlast(self) -> None:
        """Wait longer than any lease can last."""
        time.sleep(self._ttl + 0.5)


def _last_write(file: Path) -> float:
    """From the file system or from the writer, because a process may be killed during a write."""
    return max([file.stat().st_mtime, *(float(line) for line in file.read_text().split()[-1:])])
